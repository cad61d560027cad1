import assert from 'node:assert/strict'
import test from 'node:test'

import { isReplaced } from '../../../functions/console/static/api_keys.js'

const key = (id, more = {}) => ({ id, name: 'edge-us', scopes: ['authorizer'], status: 'active', created_at: '2026-11-01T00:00:00Z', expires_at: '2026-11-22T00:00:00Z', ...more })
const newer = { created_at: '2026-11-21T00:00:00Z', expires_at: '2027-02-21T00:00:00Z' }

test('a key is replaced by a later one that may do as much and lasts longer', () => {
  const old = key('old')
  const by = (other) => isReplaced(old, [old, other])
  assert.equal(isReplaced(old, [old]), false)
  assert.equal(by(key('new', newer)), true)
  assert.equal(by(key('new', { ...newer, expires_at: null })), true)
  assert.equal(by(key('new', { ...newer, status: 'revoked' })), false)
  assert.equal(by(key('new', { ...newer, name: 'edge-eu', scopes: ['revoker', 'authorizer'] })), true)
  assert.equal(by(key('new', { ...newer, role: 'desk' })), false)
  assert.equal(by(key('new', { ...newer, scopes: ['admin'] })), false)
  assert.equal(by(key('new', { created_at: newer.created_at })), false)
  assert.equal(by(key('new', { ...newer, created_at: '2026-10-01T00:00:00Z' })), false)
})
