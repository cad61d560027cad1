import assert from 'node:assert/strict'
import test from 'node:test'

import { shares, stages, summarize, titleOf, formatDuration } from '../../../functions/console/static/changes.js'
import { layout } from '../../../functions/console/static/charts/changes.js'
import { measure } from '../../../functions/console/static/charts/text.js'

const AT = Date.parse('2026-11-21T12:00:00Z')
const time = (seconds) => new Date(AT + seconds * 1000).toISOString().replace('.000Z', 'Z')
/** A change that so many refuse after these seconds, as the service tells it: evenly chosen points. */
function change(registered, seconds, more = {}) {
  const step = (seconds.length - 1) / 199
  const curve = seconds.length > 200 ? Array.from({ length: 200 }, (_, index) => seconds[Math.round(index * step)]) : seconds
  const complete = registered > 0 && seconds.length === registered
  return {
    id: 'svc_rev_1', kind: 'warrant', name: 'svc_wrt_a', recorded_at: time(0), reason: null, actor: null, can_unrevoke: true,
    reach: { keys: 0, warrants: 1 }, feed: { sequence: 7, issued_at: time(1), published: 1, total: 1 }, srl: null, srl_due_at: time(60),
    authorizers: { total: registered, enforced: seconds.length, fail_closed: 0, unknown: registered - seconds.length },
    is_complete: complete, completed_at: complete ? time(seconds.at(-1)) : null, propagation_curve: curve.map((each) => [each, 'enforced']), is_upper_bound: false,
    lagging_authorizers: [], ...more,
  }
}

test('a length of time may be told late, and never early', () => {
  assert.deepEqual([0, 59, 60, 119, 3600, 3661, 86_399, 90_000, 200_000].map(formatDuration),
    ['0 s', '59 s', '1 min', '1 min 59 s', '1 h', '1 h 2 min', '1 day', '1 day 1 h', '2 days 8 h'])
  const units = { s: 1, min: 60, h: 3600, day: 86_400, days: 86_400 }
  for (let seconds = 0; seconds < 500_000; seconds += 997) {
    const told = [...formatDuration(seconds).matchAll(/(\d+) (\w+)/g)].reduce((sum, [, many, unit]) => sum + many * units[unit], 0)
    assert.ok(told >= seconds && told < seconds + 3600, formatDuration(seconds))
  }
})

test('the title of tokens names their subject, once the record is read', () => {
  const name = `svc_wrt_sub-${'a'.repeat(43)}-001795780800`
  const record = { warrant_id: name, token_issuer: 'https://as.example', token_value: 'ann' }
  assert.equal(titleOf(change(0, [], { name }), record), 'All tokens of user ann until 2026-11-27 12:00:00 UTC')
  assert.equal(titleOf(change(0, [], { name })), `All tokens of a user until 2026-11-27 12:00:00 UTC (${name})`)
  assert.equal(titleOf(change(0, []), record), 'svc_wrt_a')
})

test('the shares are of all that are registered, late at most, and none before it is reached', () => {
  for (const registered of [0, 1, 2, 7, 30, 199, 200, 201, 333, 1999]) {
    for (const part of [0, 0.49, 0.5, 0.9, 0.99, 1]) {
      const seconds = Array.from({ length: Math.floor(registered * part) }, (_, index) => Math.floor(index ** 1.5))
      for (const { words, seconds: told } of shares(change(registered, seconds))) {
        const share = { '50 %': 0.5, '90 %': 0.9, '99 %': 0.99, all: 1 }[words]
        const true_ = registered ? seconds[Math.ceil(share * registered) - 1] : undefined
        if (true_ === undefined) assert.equal(told, null)
        else assert.ok(told >= true_ && (seconds.length > 200 || told === true_), `${registered} ${part} ${words}`)
      }
    }
  }
})

const CASES = [
  change(0, []), change(3, []), change(3, [1, 2]), change(3, [1, 2, 90]),
  change(3, [], { feed: { sequence: null, issued_at: null, published: 2, total: 3 } }),
  change(3, [], { feed: { sequence: null, issued_at: null, published: 0, total: 0 } }),
  change(3, [], { unrevoked_at: time(50) }), change(2, [], { kind: 'api_key', feed: null, propagation_curve: [], srl_due_at: null }),
  change(3, [4, 5], { srl: { version: 9, issued_at: time(30) }, kind: 'srl_signer', name: null }),
]

test('nothing is said to be refused, or reached, before the service says so', () => {
  for (const each of CASES) {
    const said = [summarize(each).words, ...stages(each, AT + 60_000).map(({ title }) => title)].join()
    if (!each.is_complete) assert.doesNotMatch(said, /refused/)
    const reached = stages(each, AT + 60_000).map(({ isReached }) => isReached)
    if (!each.unrevoked_at && each.feed?.total) assert.equal(reached.at(-1), each.is_complete)
    assert.equal(reached[0], true)
  }
  assert.equal(summarize(CASES[3]).words, 'refused everywhere')
  assert.match(stages(CASES[1], AT + 181_000)[2].lines[0], /overdue/)
  assert.match(stages(CASES[1], AT + 180_000)[2].lines[0], /Due by 12:01:00/)
})

for (const width of [260, 390, 760, 1160]) {
  test(`at ${width} px the curve is inside, rises, and its ticks stand apart`, () => {
    for (const each of [...CASES, change(10_000, Array.from({ length: 9_000 }, (_, index) => index))]) {
      const at = layout(each, width, AT + 700_000)
      assert.ok(at.dots.every(({ x, y }) => x >= at.left && x <= width && y >= 0 && y <= at.bottom))
      at.dots.slice(1).forEach((dot, index) => assert.ok(dot.x >= at.dots[index].x && dot.y <= at.dots[index].y))
      at.ticks.slice(1).forEach((tick, index) => {
        const before = at.ticks[index]
        assert.ok(tick.x - before.x >= (measure(tick.text, { size: 12 }) + measure(before.text, { size: 12 })) / 2)
      })
    }
  })
}
