// Why a call ended that was still under way when its job had. Light.

/** The same in every copy of this package. */
const MARK = Symbol.for('longshore.closed')

export function closedReason(): DOMException {
  const reason = new DOMException('The job has ended, or the helpers were closed.', 'AbortError')
  return Object.assign(reason, { [MARK]: true })
}

/** Whether it is that: nobody need take it, since nobody waits any more. */
export function isClosedReason(thrown: unknown): boolean {
  return typeof thrown === 'object' && thrown !== null && MARK in thrown
}
