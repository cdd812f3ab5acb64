// A service that starts pods and then waits to be killed.

import type { PodSpec } from '../../src/fleet/providers/provider.ts'
import { openProvider, type ProviderPlace } from './open-provider.ts'

const { place, specs } = JSON.parse(process.argv[2] ?? '') as { place: ProviderPlace; specs: PodSpec[] }
const provider = await openProvider(place)
console.log(JSON.stringify(await Promise.all(specs.map((spec) => provider.start(spec)))))
setInterval(() => undefined, 60_000)
