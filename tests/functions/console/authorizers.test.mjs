import assert from 'node:assert/strict'
import test from 'node:test'

import { holds, quietAfter } from '../../../functions/console/static/authorizers.js'

const one = (name, sequence, more = {}) => ({ id: name, name, sequence, foreign: false, allow_when_stale: false, seen_at: '2026-11-21T11:59:00Z', owner: 'edge', type: null, relay: null, ...more })

test('an entry is held only by who reports it or a later one of this service', () => {
  assert.deepEqual([holds(one('', 9), 9), holds(one('', 10), 9), holds(one('', 8), 9), holds(one('', null), 0), holds(one('', 9, { foreign: true }), 9)], [true, true, false, false, false])
})

test('a heartbeat is missing when the client with the longest pause is late', () => {
  assert.equal(quietAfter(1), 405)
  assert.equal(quietAfter(20_000), 530)
})
