// Checks each list of a JSON array on standard input, and prints which check failed, or null.

import { readFileSync } from 'node:fs'
import { Refused, verify } from '../../../functions/console/static/verify.js'

const failed = async ({ body, keys, now, seen }) => {
  try {
    await verify(JSON.parse(body), keys.map((key) => new Uint8Array(Buffer.from(key, 'base64'))), Date.parse(now), seen)
    return null
  } catch (error) {
    if (error instanceof Refused) return error.check
    if (error instanceof SyntaxError) return 'form'
    throw error
  }
}

const results = []
for (const each of JSON.parse(readFileSync(0, 'utf8'))) results.push(await failed(each))
console.log(JSON.stringify(results))
