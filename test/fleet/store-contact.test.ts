import { expect, it } from 'vitest'
import { StoreContact } from '../../src/fleet/service/store-contact.ts'
import { FakeClock } from '../support/fake-clock.ts'

it('lasts from the first answer for as long as they come, and anew after a gap', () => {
  const clock = new FakeClock()
  const contact = new StoreContact(clock)
  expect(contact.lastedMs).toBe(0)
  for (let passed = 0; passed <= 40_000; passed += 5_000) {
    contact.answered()
    expect(contact.lastedMs).toBe(passed)
    clock.advance(5_000)
  }
  expect(contact.lastedMs).toBe(45_000)
  clock.advance(1)
  expect(contact.lastedMs).toBe(0)
  contact.answered()
  clock.advance(2_000)
  expect(contact.lastedMs).toBe(2_000)
})

it('begins anew when the clock of the store was set', () => {
  const clock = new FakeClock()
  let aheadMs = 0
  const contact = new StoreContact({
    now: () => clock.now() + aheadMs,
    monotonic: () => clock.monotonic(),
  })
  contact.answered()
  clock.advance(4_000)
  aheadMs = 800
  expect(contact.lastedMs).toBe(4_000)
  for (const step of [45_000, -45_000]) {
    aheadMs = step
    expect(contact.lastedMs).toBe(0)
    contact.answered()
    clock.advance(4_000)
    expect(contact.lastedMs).toBe(4_000)
  }
})
