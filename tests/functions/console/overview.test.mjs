import assert from 'node:assert/strict'
import test from 'node:test'

import { label, trouble } from '../../../functions/console/static/charts/overview.js'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const at = (minutes) => new Date(NOW + minutes * 60_000).toISOString().replace('.000Z', 'Z')

test('what is wrong with a list is said, the worst first', () => {
  const list = { issued_at: at(-31), expires_at: at(29), next_due_at: at(0), pending: 0, pending_truncated: false }
  assert.equal(trouble(list, NOW), null)
  assert.equal(trouble({ ...list, pending: 1 }, NOW), 'waiting')
  assert.equal(trouble({ ...list, pending_truncated: true }, NOW), 'waiting')
  assert.equal(trouble({ ...list, pending: 1, next_due_at: at(-3) }, NOW), 'late')
  assert.equal(trouble({ ...list, pending: 1, next_due_at: at(-3), expires_at: at(0) }, NOW), 'expired')
})

test('a number is written as it fits', () => {
  assert.equal(label(950, 30), '950')
  assert.equal(label(1234, 60), '1,234')
  assert.equal(label(1234, 32), '1.2k')
  assert.equal(label(123_456, 32), '123k')
  assert.equal(label(950, 10), '')
})
