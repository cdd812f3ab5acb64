// Every constant of scaling and releases, each with its reason. docs/fleet.md holds the same table.

export const fleetRules = {
  /** Assumed of a start until one was seen: a Node worker on a machine that has the image takes about that. */
  assumedStartMs: 2_000,
  /** Assumed of a job until one has run: long enough that a burst gets several workers, too short for one each. */
  assumedJobMs: 1_000,
  /** The most workers while nothing is known of how long jobs run: enough to learn it, and a small mistake. */
  unknownMost: 10,
  /**
   * What starts take is taken off the delay that is allowed, down to this share of it: where a start takes longer than the delay,
   * the line is still to be short four times over, rather than one worker per job at once.
   */
  leastDelayShare: 0.25,
  /** A worker that takes this many times as long to start as others is no longer counted on; another is started beside it. */
  slowStartFactor: 3,
  /** The least of that time: short starts vary by more than their own length. */
  slowStartMs: 30_000,
  /** A worker that is not ready by then never will be: it is ended, and counts as a failed start. */
  startDeadlineMs: 300_000,
  /** A service that says nothing for so long is gone, and the workers that it ran with it: a restart is shorter. */
  hostSilentMs: 30_000,
  /** Seen for so long before it is believed: where the store's clock is set, a service that has not looked yet sees others as gone. */
  hostMissingMs: 2_000,
  /** The wait after the first death: what restarts by itself, a registry or a full disk's cleaner, gets a moment. */
  backoffBaseMs: 1_000,
  /** The longest wait: an operator who has mended the cause sees a worker within a minute. */
  backoffMaxMs: 60_000,
  /** A worker that lived this long died of something new, so its death begins the count again. */
  steadyMs: 60_000,
  /** From this many deaths in a row on, one worker at a time is tried: the others would die of the same. */
  deathsUntilProbing: 3,
  /** A release goes this share of workersMax beyond it, and by one worker at least, so that new ones can prove ready first. */
  surgeShare: 0.25,
  /** Workers that try a version before others are started at it. */
  canaries: 1,
  /** A worker of a release counts once it has been ready for this long: what dies of its first job mostly does so at once. */
  proveMs: 2_000,
  /** How many are started beside each that has proved ready: a fault that shows late meets a part of the fleet, and 100 workers take six rounds. */
  releaseGrowth: 2,
  /** A release stops at so many failed starts in a row: two may be an accident of the machine. */
  releaseFailures: 3,
  /** And only when they are this share of its workers that are ready, so that a large release survives single losses. */
  releaseFailureShare: 0.25,
  /** What arrivals and lengths of jobs are averaged over, or the allowed delay if that is longer: steady, and past a burst soon. */
  trafficWindowMs: 30_000,
} as const
