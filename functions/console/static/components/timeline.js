/** The history of an object: its audit entries and other events, newest first. */

import { now } from '../api.js'
import { brief } from '../changes.js'
import { count, date, second, short } from '../format.js'
import { html, one } from '../html.js'
import { aged, readCached } from '../store.js'
import { hasScope } from '../session.js'
import { collapseRuns, sentence } from './audit_sentences.js'
import { facts, heading, userText, problem, ready, skeleton } from './panel.js'
import { icon } from './tag.js'

/** @typedef {import('../changes.js').Happened} Happened */
/**
 * @typedef {object} Timeline `entry` is null if this key may not read the log
 * @property {Happened[]} list
 * @property {import('../store.js').Entry | null} entry
 */
/**
 * @typedef {object} Thing
 * @property {string} name
 * @property {[string, unknown][]} known facts
 * @property {(import('../table.js').Action | false | null)[]} actions
 * @property {unknown} [more] below the facts
 * @property {unknown} [parts] related parts
 */

/** Loaded with the first timeline. */
const sheet = one(html`<link rel="stylesheet" />`)
sheet.setAttribute('href', new URL('../changes.css', import.meta.url).href)
document.head.append(sheet)
await new Promise((resolve) => ['load', 'error'].forEach((event) => sheet.addEventListener(event, resolve)))

const [SECONDS, MOST, YEAR] = [30, 50, 365 * 86_400_000]

/**
 * Read the history of an object. The page that draws it keeps it fresh.
 * @param {Record<string, string>} query of the audit log, for example `resource_id`
 * @param {Happened[]} [more]
 * @param {string | null} [name] of the object, because some entries have only the identifier
 * @returns {Timeline}
 */
export function happened(query, more = [], name = null) {
  const from = `${date(now() - YEAR)}T00:00:00Z`
  const path = `/v1/audit-logs?${new URLSearchParams({ limit: String(MOST), from, ...query })}`
  const entry = hasScope('read-only', 'auditor') ? readCached(path, SECONDS) : null
  const id = query.resource_id
  const withName = (/** @type {string} */ what) => (id && name ? what.replace(short(id), name) : what)
  const entries = collapseRuns(entry?.data?.audit_logs ?? []).map((run) => {
    const { who, did, what } = sentence(run)
    const isEnd = /revoke|create_batch|revocation\.(create|batch)/.test(run.action)
    const state = isEnd ? /** @type {const} */ ('revoked') : /** @type {const} */ ('info')
    return { time: run.entries[0].timestamp, text: `${who} ${did} ${withName(what)}`, state }
  })
  // Within one second, the log has the newest first, and the publications follow.
  return {
    list: [...more.toReversed(), ...entries].sort((one, other) => Date.parse(other.time) - Date.parse(one.time)),
    entry,
  }
}

/** @param {Timeline} timeline */
export const timeline = ({ list, entry }) =>
  html` <ol class="timeline">
      ${list.map(
        ({ time, text, state }) =>
          html`<li>
            ${icon(state)}<bdi class="said" dir="auto" title=${text}>${text}</bdi>
            <time datetime=${time} title=${`${second(time)} UTC`}>${brief(time, now())}</time>
          </li>`,
      )}
    </ol>
    ${!entry && html`<p class="soft">This key cannot read the audit log.</p>`}
    ${
      entry?.error &&
      problem(
        entry.error,
        entry.at ? 'The audit log is unavailable. The last data is shown.' : 'The audit log could not be loaded.',
      )
    }
    ${entry && !entry.at && !entry.error && skeleton(3)}
    ${entry?.data?.cursor && html`<p class="soft">Only the newest ${count(MOST, 'entry', 'entries')} are listed.</p>`}`

/**
 * Return the history as a panel.
 * @param {string} id
 * @param {string} name
 */
const happenedTo = (id, name) =>
  html` <section class="panel wide">
    <h2>Timeline</h2>
    ${timeline(happened({ resource_id: id }, [], name))}
  </section>`

/**
 * Return the page of an object: its actions, facts, parts and history.
 * @param {string} path
 * @param {number} seconds
 * @param {{title: string, href: string, noun: string}} of the page of all such objects
 * @param {(found: any) => Thing} draw
 */
export function thing(path, seconds, { title, href, noun }, draw) {
  const entry = readCached(path, seconds)
  if (entry.at || entry.error) ready()
  const back = html`<a href=${href}>All ${noun}s</a>`
  if (!entry.data)
    return [
      heading(title, back),
      entry.error
        ? problem(entry.error, `The ${noun} could not be loaded.`)
        : html`<section class="panel">${skeleton(6)}</section>`,
    ]
  const { name, known, actions, more, parts } = draw(entry.data)
  const old = aged(entry)
  return [
    heading(
      userText(name),
      back,
      actions.map((each) => each && html`<button type="button" @click=${each.run}>${each.title}</button>`),
    ),
    old && html`<p class="stale soft">${old}</p>`,
    html`<section class="panel wide body">${facts(known)}${more}</section>`,
    parts,
    happenedTo(entry.data.id, name),
  ]
}
