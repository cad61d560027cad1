/** Revoke many warrants under one batch. */

import { ApiError } from '../api.js'
import { count, number } from '../format.js'
import { html, one, put } from '../html.js'
import { Run } from '../parts/batch.js'
import { decoded, Unreadable, written } from '../parts/csv.js'
import { field } from '../parts/dialog.js'
import { advice, announce, banner, heading, named, problem, ready } from '../parts/panel.js'
import { download } from '../parts/progress.js'
import { MOST, MOST_BYTES, read } from '../parts/warrant_lines.js'
import { may } from '../session.js'

/** @typedef {import('../parts/warrant_lines.js').Found} Lines */
/** @typedef {import('../parts/warrant_lines.js').Warrant} Warrant */
/** @typedef {import('../parts/warrant_lines.js').BadLine} BadLine */
/** @typedef {{warrants: Warrant[], bad: BadLine[], check: Run}} Given all that was given, and what the check said */

const SHOWN = 100

/**
 * @param {HTMLElement} main
 * @param {AbortSignal} signal
 */
export async function showMany(main, signal) {
  const back = html`<p><a href="#/revocations">Revocations</a></p>`
  if (!may('revoker'))
    put(
      main,
      back,
      heading('Revoke many warrants'),
      banner(
        'info',
        html`<strong>This key cannot revoke.</strong> Ask an administrator for one with the scope revoker or admin.`,
      ),
    )
  else
    put(
      main,
      back,
      heading(
        'Revoke many warrants',
        'First the service says what would happen. Nothing changes until you press Revoke.',
      ),
      new Many(signal).element,
    )
  ready()
}

/** The form, the check, and the run. */
class Many {
  #result = one(html`<div class="body" id="many-result"></div>`)
  /** @type {{name: string, text: string} | null} */
  #file = null
  #chosen = one(html`<div role="status"></div>`)
  #text = /** @type {HTMLTextAreaElement} */ (
    one(
      html`<textarea
        name="text"
        rows="8"
        spellcheck="false"
        autocomplete="off"
        placeholder="svc_wrt_laptop-17"
        @input=${() => this.#changed()}
      ></textarea>`,
    )
  )
  #reason = /** @type {HTMLTextAreaElement} */ (
    one(html`<textarea name="reason" rows="2" maxlength="1024" dir="auto" @input=${() => this.#changed()}></textarea>`)
  )
  #fault = one(html`<div></div>`)

  #typed = one(html`<div class="body"></div>`)

  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.signal = signal
    const drop = async (/** @type {DragEvent} */ event) => {
      event.preventDefault()
      const [file] = event.dataTransfer?.files ?? []
      if (file && !this.#form.inert) await this.#take(file)
    }
    // Anywhere: a browser would leave the page for a file that is dropped beside the form.
    addEventListener('dragover', (event) => event.preventDefault(), { signal })
    addEventListener('drop', drop, { signal })
    const choose = async (/** @type {Event} */ event) => {
      const input = /** @type {HTMLInputElement} */ (event.target)
      if (input.files?.[0]) await this.#take(input.files[0])
      input.value = ''
    }
    put(
      this.#typed,
      field(
        'Warrants',
        this.#text,
        'One identifier a line, or a CSV file with the column warrant_id, and reason if each has its own. ' +
          `At most ${number(MOST)} rows. You can drop a file here.`,
      ),
      html`<label class="field"
        ><span>Or choose a file</span><input type="file" accept=".csv,.txt,.tsv,text/csv,text/plain" @change=${choose}
      /></label>`,
    )
    this.element = one(
      html` <div class="body">
        <form
          class="panel"
          @submit=${(/** @type {Event} */ event) => {
            event.preventDefault()
            void this.#check()
          }}
        >
          ${this.#chosen}${this.#typed}
          ${field(
            'Reason',
            this.#reason,
            'For people, and for the audit log. It holds for each warrant that has none of its own.',
          )}
          ${this.#fault}
          <div class="actions"><button class="main">Check, change nothing</button></div>
        </form>
        ${this.#result}
      </div>`,
    )
  }

  get #form() {
    return /** @type {HTMLFormElement} */ (this.element.querySelector('form'))
  }

  #changed() {
    put(this.#result)
    put(this.#fault)
  }

  /** @param {File} file */
  async #take(file) {
    this.#changed()
    try {
      if (file.size > MOST_BYTES)
        throw new Unreadable(`The file is larger than ${MOST_BYTES / 1_000_000} MB. Split it.`)
      this.#file = { name: file.name, text: decoded(new Uint8Array(await file.arrayBuffer())) }
    } catch (error) {
      return this.#refuse(error)
    }
    const leave = () => {
      this.#file = null
      this.#changed()
      put(this.#chosen)
      this.#typed.toggleAttribute('hidden', false)
      this.#text.focus()
    }
    this.#typed.toggleAttribute('hidden', true)
    put(
      this.#chosen,
      html`<div class="head">
        <div>
          <strong>Warrants from the file</strong> <bdi>${file.name}</bdi>
          <p class="soft">${count(file.size, 'byte')}</p>
        </div>
        <button type="button" @click=${leave}>Use something else</button>
      </div>`,
    )
  }

  /** @param {unknown} error */
  #refuse(error) {
    if (!(error instanceof Unreadable)) throw error
    put(this.#fault, banner('wait', html`<strong>This cannot be read.</strong> ${error.message}`))
  }

  async #check() {
    this.#changed()
    const reason = this.#reason.value.trim()
    /** @type {Lines} */
    let lines
    try {
      lines = read(this.#file?.text ?? this.#text.value)
    } catch (error) {
      return this.#refuse(error)
    }
    const bare = lines.warrants.find((each) => each.reason === null)
    if (!reason && bare) {
      this.#reason.focus()
      return put(
        this.#fault,
        banner(
          'wait',
          lines.hasReasons ? `Give a reason: the warrant on line ${bare.line} has none of its own.` : 'Give a reason.',
        ),
      )
    }
    const check = new Run(lines.warrants, reason, { dry: true, signal: this.signal })
    // What is checked must be what is revoked.
    this.#form.inert = true
    try {
      if (!(await check.go(this.#result))) return
      put(this.#result, this.#checked(lines, reason, check))
      this.#result.querySelector('h2')?.focus()
    } catch (error) {
      if (!this.signal.aborted)
        put(
          this.#result,
          problem(error, 'The warrants could not be checked. Nothing was changed.', () => this.#check()),
        )
    } finally {
      this.#form.inert = false
    }
  }

  /**
   * @param {Lines} lines
   * @param {string} reason
   * @param {Run} check
   */
  #checked(lines, reason, check) {
    const open = lines.warrants.filter(({ id }) =>
      ['revoked', 'extended'].includes(check.outcomes.get(id)?.outcome ?? ''),
    )
    const already = check.counted('already_revoked')
    const bad = [...lines.bad, ...check.failed()].sort((one_, other) => one_.line - other.line)
    const left = /** @type {HTMLInputElement} */ (
      one(
        html`<input
          type="checkbox"
          @change=${() => {
            button.disabled = !left.checked
          }}
        />`,
      )
    )
    const run = new Run(open, reason, { dry: false, signal: this.signal })
    const start = () => this.#run(run, { warrants: lines.warrants, bad, check })
    const button = /** @type {HTMLButtonElement} */ (
      one(
        html`<button type="button" class="main" ?disabled=${bad.length > 0} @click=${start}>
          Revoke ${count(open.length, 'warrant')}
        </button>`,
      )
    )
    return html`<section class="panel" aria-labelledby="would">
      <h2 id="would" tabindex="-1">What would happen</h2>
      <div class="body">
        <ul class="plain">
          <li><strong>${count(open.length, 'warrant')}</strong> would be revoked.</li>
          ${
            already > 0 &&
            html`<li>
              <strong>${number(already)}</strong> ${already === 1 ? 'is' : 'are'} revoked already and
              ${already === 1 ? 'stays' : 'stay'} so.
            </li>`
          }
          ${
            lines.repeated > 0 &&
            html`<li>
              <strong>${number(lines.repeated)}</strong> ${lines.repeated === 1 ? 'line repeats' : 'lines repeat'} a
              warrant of an earlier line.
            </li>`
          }
          ${
            lines.unread > 0 &&
            html`<li>Only the first column is read, as the first line has no heading warrant_id.</li>`
          }
          ${
            bad.length > 0 &&
            html`<li>
              <strong>${number(bad.length)}</strong> ${bad.length === 1 ? 'line' : 'lines'} cannot be revoked:
            </li>`
          }
        </ul>
        ${
          bad.length > 0 && [
            badLines(bad),
            html`<label class="tick"
              >${left}
              <span>Leave out the ${bad.length === 1 ? 'bad line' : `${number(bad.length)} bad lines`}</span></label
            >`,
          ]
        }
        ${open.length ? html`<div class="actions">${button}</div>` : html`<p>There is nothing to revoke.</p>`}
      </div>
    </section>`
  }

  /**
   * @param {Run} run
   * @param {Given} given
   */
  async #run(run, given) {
    this.#form.inert = true
    const place = one(html`<div class="body"></div>`)
    put(
      this.#result,
      html`<section class="panel">
        <h2>Revoking</h2>
        ${place}
      </section>`,
    )
    /** @type {ApiError | null} */
    let fault = null
    try {
      await run.go(place)
    } catch (error) {
      if (!(error instanceof ApiError) && !this.signal.aborted) throw error
      fault = error instanceof ApiError ? error : null
    }
    this.#form.inert = false
    if (this.signal.aborted)
      return announce(
        `Stopped: ${number(run.counted('revoked'))} of ${count(run.warrants.length, 'warrant')} are revoked.`,
      )
    const open = run.open.length
    put(
      this.#result,
      html`<section class="panel" aria-labelledby="done">
        <h2 id="done" tabindex="-1">What was done</h2>
        <div class="body">
          ${told(run, fault)} ${run.failed().length > 0 && badLines(run.failed())}
          <div class="actions">
            ${
              open > 0 &&
              html`<button type="button" class="main" @click=${() => this.#run(run, given)}>
                Go on with the other ${number(open)}
              </button>`
            }
            <button type="button" @click=${() => keep(run, given)}>Download the result (CSV)</button>
            <a class="button" href=${`#/changes/${run.batch}`}>How far it has come</a>
          </div>
          <p class="soft">
            <small>Batch <code>${run.batch}</code></small>
          </p>
        </div>
      </section>`,
    )
    this.#result.querySelector('h2')?.focus()
  }
}

/**
 * What a run has done, and what is open.
 * @param {Run} run
 * @param {ApiError | null} fault
 */
function told(run, fault) {
  const revoked = run.counted('revoked') + run.counted('already_revoked') + run.counted('extended')
  const [unheard, failed, open] = [run.counted('no_answer'), run.failed().length, run.open.length]
  const done = html`<strong>${count(revoked, 'warrant is', 'warrants are')} revoked.</strong>`
  if (!fault && !open && !failed)
    return banner('force', html`${done} Online checks refuse them from now on, authorizers once they hold the change.`)
  const rest = [
    failed > 0 && ` ${count(failed, 'warrant')} failed, as told below.`,
    unheard > 0 && ` For ${number(unheard)} no answer came: they may be revoked or not.`,
    open > unheard && ` ${number(open - unheard)} ${open - unheard === 1 ? 'is' : 'are'} still to be done.`,
    open > 0 && ' To go on is safe: it changes nothing twice.',
  ]
  return banner(
    fault ? 'revoked' : 'wait',
    html`${fault ? `${advice(fault)} ` : open ? 'Stopped. ' : ''}${done}${rest}`,
  )
}

/** @param {BadLine[]} lines */
const badLines = (lines) =>
  html` <div class="scrolled" tabindex="0" role="region" aria-label="Lines that cannot be revoked">
    <ul class="plain">
      ${lines
        .slice(0, SHOWN)
        .map(({ line, text, why }) => html`<li>${number(line)}: ${named(text)} <span class="soft">${why}</span></li>`)}
    </ul>
    ${lines.length > SHOWN && html`<p class="soft">These are the first ${number(SHOWN)}; the result file has all.</p>`}
  </div>`

/**
 * Let the person keep what became of each line.
 * @param {Run} run
 * @param {Given} given
 */
function keep(run, { warrants, bad, check }) {
  const left = new Set(bad.map(({ line }) => line))
  const rows = [
    ...warrants
      .filter(({ line }) => !left.has(line))
      .map(({ line, id }) => {
        const {
          outcome,
          revocation_id: revocation,
          message,
        } = run.outcomes.get(id) ??
        (check.outcomes.get(id)?.outcome === 'revoked'
          ? { outcome: 'not_begun' }
          : /** @type {import('../parts/batch.js').Outcome} */ (check.outcomes.get(id)))
        return /** @type {[number, ...unknown[]]} */ ([line, id, outcome, revocation, message])
      }),
    ...bad.map(({ line, text, why }) => /** @type {[number, ...unknown[]]} */ ([line, text, 'left_out', null, why])),
  ].sort(([one_], [other]) => one_ - other)
  download(`${run.batch}.csv`, 'text/csv', [
    written([['line', 'warrant_id', 'outcome', 'revocation_id', 'message'], ...rows]),
  ])
}
