// What the servers of one service share that need not outlive them: how often keys ask, and which workers live.

export interface RateAsk {
  endpoint: string
  /** Whose asking for what is counted. */
  bucket: string
  /** The most within the window, and at a time. */
  limit: number
  atATime?: number
  now: number
}

export interface RateCount {
  /** `in`: it was counted; whoever is let in says when it leaves. The others are refused uncounted. */
  state: 'in' | 'too-many' | 'too-many-at-a-time'
  /** Within the window, this one included when it is in. */
  counted: number
  /** Until one that was counted no longer is, ms; 0 when none is. */
  roomInMs: number
  /** To leave with; when it is in. */
  ticket?: string
}

/** Rates, over a window that slides in steps of a hundredth and counts one step more, so that no window ever sees too many. */
export interface RateStore {
  enter(ask: RateAsk): Promise<RateCount>
  /** Whoever dies without leaving is no longer counted after ten minutes. */
  leave(place: { endpoint: string; bucket: string; ticket: string }): Promise<void>
}

/** A worker as the server that heard it says. */
export interface Presence {
  worker: string
  /** Epoch ms. */
  aliveUntil: number
  /** How long that was to come when it was told. */
  aliveMs?: number | undefined
  holds: number
  /** Of these, jobs of low priority. */
  lowPriority: number
  isUnhealthy: boolean
  /** It was heard, and has not asked for a job yet, nor holds one. */
  isStarting?: boolean | undefined
}

export interface PresenceStore {
  /** Tells the other servers of workers that this one has heard. */
  tell(endpoint: string, heard: readonly Presence[]): Promise<void>
  /** Those that are alive by what any server has told. Empty where there is one server, which has heard them itself. */
  list(endpoint: string, now: number): Promise<Presence[]>
}
