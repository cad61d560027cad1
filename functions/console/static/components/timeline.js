/** The history of an object: its audit entries and other events, newest first. */

import { now } from '../api.js'
import { brief } from '../changes.js'
import { count, date, second, short } from '../format.js'
import { html } from '../html.js'
import { aged, readCached } from '../store.js'
import { hasScope } from '../session.js'
import { collapseRuns, sentence } from './audit_sentences.js'
import { button, facts, heading, loadSheet, userText, problem, ready, skeleton } from './panel.js'
import { icon } from './tag.js'

/** @typedef {import('../changes.js').Happened} Happened */
/**
 * @typedef {object} Thing
 * @property {string} name
 * @property {[string, unknown][]} known facts
 * @property {(import('../table.js').Action | false | null)[]} actions
 * @property {unknown} [more] below the facts
 * @property {unknown} [parts] related parts
 */

await loadSheet('changes.css')

const [SECONDS, MOST, YEAR] = [30, 50, 365 * 86_400_000]

/** Return a time of today to the second, or any other time with its date. @param {string} time */
export const exactTime = (time) =>
  html`<time datetime=${time} title=${`${second(time)} UTC`}>${brief(time, now())}</time>`

/**
 * Return the history of an object. The page that draws it keeps it fresh.
 * @param {Record<string, string>} query of the audit log, for example `resource_id`
 * @param {string | null} name of the object, because some entries have only the identifier
 * @param {Happened[]} [more]
 */
export function timeline(query, name, more = []) {
  const from = `${date(now() - YEAR)}T00:00:00Z`
  const path = `/v1/audit-logs?${new URLSearchParams({ limit: String(MOST), from, ...query })}`
  // Without the permission to read the log, the other events are shown.
  const entry = hasScope('read-only', 'auditor') ? readCached(path, SECONDS) : null
  const id = query.resource_id
  const entries = collapseRuns(entry?.data?.audit_logs ?? []).map((run) => {
    const { who, did, what } = sentence(run)
    const isEnd = /revoke|create_batch|revocation\.(create|batch)/.test(run.action)
    const state = isEnd ? /** @type {const} */ ('revoked') : /** @type {const} */ ('info')
    const object = id && name ? what.replace(short(id), name) : what
    return { time: run.entries[0].timestamp, text: `${who} ${did} ${object}`, state }
  })
  // Within one second, the log has the newest first, and the publications follow.
  const events = [...more.toReversed(), ...entries].sort((one, other) => Date.parse(other.time) - Date.parse(one.time))
  return html` <ol class="timeline">
      ${events.map(
        ({ time, text, state }) =>
          html`<li>${icon(state)}<bdi class="said" dir="auto" title=${text}>${text}</bdi> ${exactTime(time)}</li>`,
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
}

/**
 * Return the page of an object: its actions, facts, parts and history.
 * @param {string} path
 * @param {number} seconds
 * @param {{title: string, href: string, noun: string}} of the page of all such objects
 * @param {(data: any) => Thing} draw
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
      actions.map((each) => each && button(each.title, each.run)),
    ),
    old && html`<p class="stale soft">${old}</p>`,
    html`<section class="panel wide body">${facts(known)}${more}</section>`,
    parts,
    html`<section class="panel wide">
      <h2>Timeline</h2>
      ${timeline({ resource_id: entry.data.id }, name)}
    </section>`,
  ]
}
