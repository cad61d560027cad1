// Follows the trust documents of each answer of a JSON array on standard input, with the module in the
// folder of the first argument. It prints why an answer was refused, or what is held.

import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const { believed, follow, named, NotTrusted, opened } = await import(pathToFileURL(`${process.argv[2]}/trust.js`).href)
const { toBase64 } = await import(pathToFileURL(`${process.argv[2]}/bytes.js`).href)

const decided = async ({ tenant, pin, held, body, spaces, now }) => {
  try {
    const before = { tenant, pin, held: held && opened(held) }
    const { held: document } = await follow(before, new Uint8Array(Buffer.concat([Buffer.from(body, 'base64'), Buffer.alloc(spaces, ' ')])), now)
    if (!document) return { version: 0, lists: [], expired: null }
    const found = { version: document.version, lists: named(document, 'lists').map(toBase64), expired: false }
    try {
      believed(document, 'lists', now)
    } catch {
      found.expired = true
    }
    return found
  } catch (error) {
    if (error instanceof NotTrusted) return error.reason
    throw error
  }
}

const results = []
for (const each of JSON.parse(readFileSync(0, 'utf8'))) results.push(await decided(each))
console.log(JSON.stringify(results))
