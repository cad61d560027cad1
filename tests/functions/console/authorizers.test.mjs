import assert from 'node:assert/strict'
import test from 'node:test'

import { quietAfter } from '../../../functions/console/static/authorizers.js'

test('a heartbeat is missing when the client with the longest pause is late', () => {
  assert.equal(quietAfter(1), 405)
  assert.equal(quietAfter(20_000), 530)
})
