import assert from 'node:assert/strict'
import test from 'node:test'

import { detailRows } from '../../../functions/console/static/components/differences.js'

test('each changed field is a row with its old and its new value', () => {
  const changes = { actions: { old: [], new: ['tenant.remove'] }, jwks: { old: null, new: [{ kid: 'a' }] } }
  assert.deepEqual(detailRows({ name: 'SSO', changes, count: 2 }), [
    ['name', 'SSO'],
    ['count', '2'],
    ['actions', 'none → tenant.remove'],
    ['jwks', 'none → [{"kid":"a"}]'],
  ])
  assert.deepEqual(detailRows({ reason: 'stolen' }), [['reason', 'stolen']])
})
