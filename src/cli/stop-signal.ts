// SIGTERM and SIGINT as a promise, for commands that run until they are told to stop.

export interface StopSignal {
  /** Resolves with the name of the first signal. */
  told: Promise<NodeJS.Signals>
  /** Whether there was one. */
  readonly isTold: boolean
  /** Calls back at every signal, the first included. */
  onSignal(callback: (signal: NodeJS.Signals) => void): void
  release(): void
}

export function stopSignal(): StopSignal {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>()
  const callbacks: ((signal: NodeJS.Signals) => void)[] = []
  let isTold = false
  const listen = (signal: NodeJS.Signals): void => {
    isTold = true
    resolve(signal)
    for (const callback of callbacks) callback(signal)
  }
  process.on('SIGTERM', listen).on('SIGINT', listen)
  const orphaned = watchParent(() => listen('SIGTERM'))
  return {
    told: promise,
    get isTold() {
      return isTold
    },
    onSignal: (callback) => void callbacks.push(callback),
    release() {
      clearInterval(orphaned)
      process.off('SIGTERM', listen).off('SIGINT', listen)
    },
  }
}

const LOOK_EVERY_MS = 250

/** Between npx and this process stands a shell that dies of a signal and passes none on: its death counts as one. */
function watchParent(onOrphaned: () => void): NodeJS.Timeout | undefined {
  if (process.env['npm_command'] !== 'exec') return undefined
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    onOrphaned()
  }, LOOK_EVERY_MS)
  return timer.unref()
}
