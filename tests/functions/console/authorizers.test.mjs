import assert from 'node:assert/strict'
import test from 'node:test'

import { behind, holds, matching, quietAfter, worstFirst } from '../../../functions/console/static/authorizers.js'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const one = (name, sequence, more = {}) => ({ id: name, name, sequence, foreign: false, allow_when_stale: false, seen_at: '2026-11-21T11:59:00Z', owner: 'edge', type: null, relay: null, ...more })

test('what is behind comes first, then who lets warrants in, then who is silent', () => {
  const fleet = [
    one('gate-10', 9), one('gate-9', 9), one('ahead', 12), one('open', 9, { allow_when_stale: true }),
    one('silent', 9, { seen_at: '2026-11-20T00:00:00Z' }), one('late', 3), one('later', 2), one('mute', null), one('foreign', 9, { foreign: true }),
  ]
  const order = worstFirst(fleet, 9, NOW).map(({ name }) => name)
  assert.deepEqual(order, ['foreign', 'mute', 'later', 'late', 'open', 'silent', 'ahead', 'gate-9', 'gate-10'])
  assert.deepEqual(worstFirst([], 9, NOW), [])
})

test('an entry is held only by who reports it or a later one of this service', () => {
  assert.deepEqual([holds(one('', 9), 9), holds(one('', 10), 9), holds(one('', 8), 9), holds(one('', null), 0), holds(one('', 9, { foreign: true }), 9)], [true, true, false, false, false])
  assert.deepEqual([behind(one('', 10), 9), behind(one('', 8), 9)], [0, 1])
})

test('a heartbeat is missing when the client with the longest pause is late', () => {
  assert.equal(quietAfter(1), 405)
  assert.equal(quietAfter(20_000), 530)
})

test('a search finds all words, in any order', () => {
  const fleet = [one('edge-gw-1', 1, { relay: 'site-a' }), one('edge-gw-2', 1, { type: 'my-gateway' })]
  assert.deepEqual(matching(fleet, ' SITE edge ').map(({ name }) => name), ['edge-gw-1'])
  assert.deepEqual(matching(fleet, 'gw').length, 2)
  assert.deepEqual(matching(fleet, '').length, 2)
  assert.deepEqual(matching(fleet, '<').length, 0)
})
