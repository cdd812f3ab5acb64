// longshore migrate: moves a stopped queue from its file to Redis, and says what is to be done next.

import { moveQueue } from '../store/move.ts'

export async function migrate(from: string, to: string): Promise<void> {
  const { jobs, sealed } = await moveQueue(from, to)
  const say = (line: string): void => void process.stdout.write(`${line}\n`)
  say(`Moved ${jobs} jobs. Do not serve the file again: its jobs would run a second time.`)
  if (sealed === 0) return
  say(
    `${sealed} of them have a sealed s3Config: start every server with LONGSHORE_SECRET_KEY set to what the file was served with, or else to the content of its .key file.`,
  )
}
