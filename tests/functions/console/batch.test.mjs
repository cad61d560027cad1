import assert from 'node:assert/strict'
import test from 'node:test'

import { batchId, calls } from '../../../functions/console/static/components/batch.js'

test('a batch is svc_bat_ and a ULID of its time', () => {
  const id = batchId(Date.parse('2026-11-21T12:00:00Z'))
  assert.match(id, /^svc_bat_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
  const time = [...id.slice(8, 18)].reduce((sum, digit) => sum * 32 + '0123456789abcdefghjkmnpqrstvwxyz'.indexOf(digit), 0)
  assert.equal(new Date(time).toISOString(), '2026-11-21T12:00:00.000Z')
  assert.notEqual(id, batchId(Date.parse('2026-11-21T12:00:00Z')))
})

test('each warrant is in one call, of at most a thousand with its reason', () => {
  const warrants = Array.from({ length: 2500 }, (_, index) => ({ line: index, id: `svc_wrt_${index}`, reason: index % 5 ? null : 'lost' }))
  const made = calls(warrants, 'stolen')
  assert.deepEqual(made.map((call) => [call.reason, call.warrants.length]), [['lost', 500], ['stolen', 1000], ['stolen', 1000]])
  assert.ok(made.every((call) => call.warrants.every(({ reason }) => (reason ?? 'stolen') === call.reason)))
  assert.equal(new Set(made.flatMap((call) => call.warrants.map(({ id }) => id))).size, 2500)
})
