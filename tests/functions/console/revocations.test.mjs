import assert from 'node:assert/strict'
import test from 'node:test'

import { isLate } from '../../../functions/console/static/pictures/overview.js'
import { layout, stages } from '../../../functions/console/static/pictures/revocations.js'
import { measure } from '../../../functions/console/static/pictures/text.js'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const STATUS = { version: 15, issued_at: '2026-11-21T11:00:00Z', expires_at: '2026-11-21T13:00:00Z', next_due_at: '2026-11-21T12:00:30Z', pending: 1, pending_truncated: false, oldest_pending_at: '2026-11-21T11:59:30Z', count: 1, key_id: 'k' }
const counts = (registered, holding, closed) => ({ registered, holding, closed, unknown: registered - holding - closed })
const known = (more = {}, beside = {}) => ({
  propagation: { revoked_at: '2026-11-21T11:42:00Z', feed: null, list: null, ended_at: null, complete: false, authorizers: counts(66, 0, 0), ...more },
  by: 'fraud-desk', status: STATUS, listedAt: null, now: NOW, ...beside,
})
const CASES = [
  known(),
  known({ list: { version: 15 }, feed: { sequence: 3, issued_at: '2026-11-21T11:42:01Z' }, authorizers: counts(66, 60, 4) }, { listedAt: '2026-11-21T11:50:00Z' }),
  known({ list: { version: 15 }, complete: true, authorizers: counts(66, 66, 0) }),
  known({ ended_at: '2026-11-21T11:50:00Z' }),
  known({ authorizers: counts(0, 0, 0) }, { status: null, by: 'W'.repeat(255) }),
  known({ authorizers: counts(1_000_000, 123_456, 123_456) }),
  known({ authorizers: null, feed: { issued_at: null } }, { by: null, what: 'them' }),
]
const texts = (point) => [...point.title.map((line) => [line, { size: 15, weight: 600 }]), ...point.lines.map((line) => [line, { size: 12.5 }])]

test('what has happened is drawn as such, and nothing else', () => {
  const reached = (each) => stages(each).map(({ isReached }) => isReached)
  assert.deepEqual(reached(CASES[0]), [true, false, false, false])
  assert.deepEqual(reached(CASES[1]), [true, true, true, false])
  assert.deepEqual(reached(CASES[2]), [true, true, true, true])
  assert.deepEqual(reached(CASES[4]), [true, false, false, false])
  assert.deepEqual(reached(CASES[6]), [true, false, false, false])
})

test('what is not known is not said to be zero, and no authorizer is not everywhere', () => {
  const [, , held, refused] = stages(CASES[4])
  assert.equal(held.state, 'unknown')
  assert.match(held.lines[0], /No authorizer has registered/)
  assert.equal(refused.state, 'unknown')
})

test('the time between two stages is told', () => {
  assert.equal(stages(CASES[0])[1].since, '18 min so far')
  assert.equal(stages(CASES[1])[1].since, '8 min')
})

test('a late schedule is told, a list that is due now is not late', () => {
  const due = Date.parse(STATUS.next_due_at)
  assert.equal(isLate(STATUS, due + 120_000), false)
  assert.equal(isLate(STATUS, due + 120_001), true)
  assert.match(stages(known({}, { now: due + 120_000 }))[1].lines[0], /Due by/)
  assert.match(stages(known({}, { now: due + 120_001 }))[1].lines[0], /late/)
})

for (const width of [320, 599, 600, 760, 1160, 2400]) {
  test(`at ${width} px every text is inside, and none stands on another`, () => {
    for (const each of CASES) {
      const rail = layout(stages(each), width)
      rail.points.forEach((point, index) => {
        const next = rail.points[index + 1]
        for (const [{ x, y, text }, font] of texts(point)) {
          const right = x + measure(text, font)
          assert.ok(x >= 0 && y > 0 && y < rail.height, `${text} is outside`)
          assert.ok(right <= (next && !rail.isUpright ? next.title[0].x : width), `${text} is too wide`)
          if (next && rail.isUpright) assert.ok(y < next.y - 12, `${text} stands on the next`)
        }
        if (next && !rail.isUpright) assert.ok(next.x - point.x > 2 * 17 + 16, 'rings touch')
        if (next && rail.isUpright) assert.ok(next.y - point.y >= 2 * 17, 'rings touch')
        if (point.since) assert.ok(point.since.y > 8 && point.since.y < point.y - (rail.isUpright ? 12 : 0))
      })
    }
  })
}
