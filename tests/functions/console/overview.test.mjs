import assert from 'node:assert/strict'
import test from 'node:test'

import { barLayout, daysLayout, dialLayout, holders, label, life, scale, trouble } from '../../../functions/console/static/pictures/overview.js'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const at = (minutes) => new Date(NOW + minutes * 60_000).toISOString().replace('.000Z', 'Z')

test('the dial tells how much of the life of a list has passed', () => {
  const of = (issued, lives) => life({ issued_at: at(issued), expires_at: at(issued + lives) }, NOW)
  assert.deepEqual(of(0, 60), { fraction: 0, left: 3600, state: 'force' })
  assert.deepEqual([of(-30, 60).fraction, of(-30, 60).state], [0.5, 'force'])
  assert.equal(of(-33, 60).state, 'wait')
  assert.equal(of(-55, 60).state, 'revoked')
  assert.deepEqual(of(-60, 60), { fraction: 1, left: 0, state: 'expired' })
  assert.deepEqual(of(5, 60).fraction, 0)
})

test('the dial fits each width', () => {
  for (const width of [220, 262, 294, 358, 1100]) {
    const { radius, x, y, height, at: place } = dialLayout(width)
    for (const fraction of [0, 0.25, 0.5, 0.75, 1]) {
      const [left, top] = place(fraction, radius + 20)
      assert.ok(left >= 0 && left <= width && top >= 18 && top <= height, `${width} ${fraction}`)
    }
    // The words at the ends are about 66 px wide.
    assert.ok(x - radius - 33 >= 0 && x + radius + 33 <= width)
    assert.ok(y + 35 <= height)
  }
})

test('what is wrong with a list is said, the worst first', () => {
  const list = { issued_at: at(-31), expires_at: at(29), next_due_at: at(0), pending: 0, pending_truncated: false }
  assert.equal(trouble(list, NOW), null)
  assert.equal(trouble({ ...list, pending: 1 }, NOW), 'waiting')
  assert.equal(trouble({ ...list, pending_truncated: true }, NOW), 'waiting')
  assert.equal(trouble({ ...list, pending: 1, next_due_at: at(-3) }, NOW), 'late')
  assert.equal(trouble({ ...list, pending: 1, next_due_at: at(-3), expires_at: at(0) }, NOW), 'expired')
})

test('each authorizer is in one piece of the bar', () => {
  const one = (sequence, minutes = -1, more = {}) => ({ sequence, seen_at: at(minutes), foreign: false, ...more })
  const fleet = [one(5), one(6), one(4), one(null), one(9, -1, { foreign: true }), one(5, -7), one(5, -6)]
  const words = holders(fleet, 5, NOW).map(({ words, count }) => `${count} ${words}`)
  assert.deepEqual(words, ['3 hold every change', '1 hold an older state', '1 hold nothing yet', '1 hold what another service said', '1 not heard for 6 min'])
})

test('the pieces of the bar fill it, do not overlap, and are all seen', () => {
  for (const counts of [[1], [10_000, 1], [60, 4, 2], [1, 1, 1, 1, 1], [20_000, 1, 1, 1, 7]]) {
    const places = barLayout(counts, 258)
    places.forEach(({ x, w }, index) => {
      assert.ok(w >= 6, `${counts}`)
      if (index) assert.ok(Math.abs(places[index - 1].x + places[index - 1].w + 2 - x) < 1e-9)
    })
    const last = places.at(-1)
    assert.ok(Math.abs(last.x + last.w - 258) < 1e-9, `${counts}`)
  }
})

test('the scale ends at a round number that is not below', () => {
  for (const most of [0, 1, 3, 7, 9, 10, 35, 99, 100, 101, 9999, 123_456]) {
    const top = scale(most)
    assert.ok(top >= most && top <= Math.max(2, most * 2.5) && Number.isInteger(top / 2), `${most}: ${top}`)
  }
})

test('bars are inside the picture, beside each other, and what waits is at the newest', () => {
  const days = [null, 0, 3, 12, 35].map((created, index) => ({ date: `2026-11-1${index}`, created }))
  const { bars, top, plot, height } = daysLayout(days, { pending: 40, since: '2026-11-12' }, 320)
  assert.equal(top, 40)
  bars.forEach(({ x, w, h, waits }, index) => {
    assert.ok(x >= 0 && x + w <= 320 && h >= 0 && h <= plot && waits <= h && height > plot + 20)
    if (index) assert.ok(bars[index - 1].x + bars[index - 1].w < x)
  })
  const waiting = bars.map(({ waits }) => Math.round((waits / plot) * 40))
  assert.deepEqual(waiting, [0, 0, 0, 5, 35])
  // What was recorded before the oldest that waits is in a list.
  const late = daysLayout(days, { pending: 40, since: '2026-11-14' }, 320).bars
  assert.deepEqual(late.map(({ waits }) => Math.round((waits / plot) * 40)), [0, 0, 0, 0, 35])
})

test('a number is written as it fits', () => {
  assert.equal(label(950, 30), '950')
  assert.equal(label(1234, 60), '1,234')
  assert.equal(label(1234, 32), '1.2k')
  assert.equal(label(123_456, 32), '123k')
  assert.equal(label(950, 10), '')
})
