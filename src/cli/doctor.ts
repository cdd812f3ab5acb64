// longshore doctor: says what is wrong with a store, and nothing when nothing is.

import { examineStore } from '../store/doctor.ts'

/** A line per problem on stdout; exit code 1 when there is one. */
export async function doctor(store: string): Promise<void> {
  const problems = await examineStore(store)
  for (const problem of problems) process.stdout.write(`${problem}\n`)
  if (problems.length > 0) process.exitCode = 1
}
