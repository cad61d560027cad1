import assert from 'node:assert/strict'
import test from 'node:test'

import { coverage, coverageWords, difference, rowLayout, stripLayout } from '../../../functions/console/static/charts/srl.js'

const HOUR = 3_600_000
const NOW = Date.parse('2026-11-21T12:00:00Z')
const FROM = NOW - 14 * 24 * HOUR
const list = (hours, lives = 1) => ({ issued_at: new Date(NOW - hours * HOUR).toISOString(), expires_at: new Date(NOW - (hours - lives) * HOUR).toISOString() })
const hours = ({ gaps }) => gaps.map(({ start, end }) => [(NOW - start) / HOUR, (NOW - end) / HOUR])

test('a gap is where no list was valid, and only there', () => {
  assert.deepEqual(hours(coverage([list(0.5), list(1), list(2)], FROM, NOW)), [])
  assert.deepEqual(hours(coverage([list(0.5), list(3), list(4)], FROM, NOW)), [[2, 0.5]])
  // An older list that lives longer still covers.
  assert.deepEqual(hours(coverage([list(0.5), list(3), list(4, 4)], FROM, NOW)), [])
  // The last one has expired.
  assert.deepEqual(hours(coverage([list(3)], FROM, NOW)), [[2, 0]])
})

test('what is before the oldest list is not known, and no gap', () => {
  assert.equal(coverage([list(3)], FROM, NOW).known, NOW - 3 * HOUR)
  assert.deepEqual(coverage([], FROM, NOW), { known: NOW, gaps: [] })
  const early = coverage([list(0.5), list(24 * 20)], FROM, NOW)
  assert.equal(early.known, FROM)
  assert.deepEqual(hours(early), [[24 * 14, 0.5]])
  assert.match(coverageWords(early), /no SRL was valid for 13 days/)
  assert.match(coverageWords(coverage([list(0.5)], FROM, NOW)), /there was always a valid SRL/)
})

test('a gap of a second is seen, and all parts are inside the strip', () => {
  for (const width of [286, 680, 1026]) {
    const gaps = [{ start: FROM, end: FROM + 1000 }, { start: NOW - 5 * HOUR, end: NOW - 4 * HOUR }, { start: NOW - 1000, end: NOW }]
    const places = stripLayout({ known: FROM, gaps }, FROM, NOW, width)
    for (const { x, w } of places.gaps) assert.ok(w >= 3 && x >= 0 && x + w <= width + 1e-9)
    const labels = places.days.filter(({ label }) => label)
    assert.ok(labels.length >= 4)
    labels.forEach(({ x }, index) => {
      assert.ok(x >= 0 && x + 16 <= width)
      if (index) assert.ok(x - labels[index - 1].x >= 16)
    })
  }
})

test('the pieces of a row are as long as their counts', () => {
  assert.deepEqual(rowLayout({ count: 50, added_count: 10 }, 100), { old: 40, fresh: 10 })
  assert.deepEqual(rowLayout({ count: 0, added_count: 0 }, 0), { old: 0, fresh: 0 })
  assert.deepEqual(rowLayout({ count: 10, added_count: null }, 10), { old: 100, fresh: 0 })
})

test('the difference of two lists', () => {
  assert.deepEqual(difference(['a', 'b'], ['b', 'c', 'd']), { added: ['c', 'd'], removed: ['a'] })
})
