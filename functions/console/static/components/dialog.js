/** Dialogs: questions and forms. */

import { ApiError, Asked, once } from '../api.js'
import { minute } from '../format.js'
import { html, one, put } from '../html.js'
import { currentCaller } from '../session.js'
import { announce, banner, button, copyText, problem } from './panel.js'

/**
 * Ask a question.
 *
 * Resolves with the result of `run`, or with null if the person closed the dialog or left the page. If `run` throws an
 * `ApiError`, the dialog shows it and stays open.
 *
 * `run` gets an `Idempotency-Key` header, so that a second press after a lost response makes the change once. If the
 * action needs another person, the dialog requests an approval, and then has a button that uses it.
 * @template T
 * @param {object} question
 * @param {unknown} question.title
 * @param {unknown} question.body
 * @param {unknown} question.action the text of the main button
 * @param {(form: FormData, headers: Record<string, string>) => Promise<T>} question.run
 * @param {string | ((error: ApiError) => string)} [question.failed] a sentence
 * @param {boolean} [question.danger] whether it is irreversible
 * @param {boolean} [question.wide]
 * @param {boolean} [question.firm] whether only the button closes it
 * @param {boolean} [question.alone] whether it has only one button
 * @returns {Promise<T | null>}
 */
export function ask({
  title,
  body,
  action,
  run,
  failed = 'The request failed.',
  danger = false,
  wide = false,
  firm = false,
  alone = firm,
}) {
  return new Promise((resolve) => {
    const fault = one(html`<div></div>`)
    const approval = new Approval((words) => put(main, words ?? action))
    /** @type {HTMLButtonElement} */
    const main = one(html`<button class=${danger ? 'danger' : 'main'}>${action}</button>`)
    /** @type {T | null} */
    let result = null
    let tried = { form: '', headers: once() }
    const submit = submitted(async (form) => {
      const serialized = JSON.stringify([...form])
      if (serialized !== tried.form) tried = { form: serialized, headers: once() }
      main.disabled = true
      put(fault)
      try {
        result = await run(form, { ...tried.headers, ...approval.headers(form) })
        dialog.close()
        // The event `close` fires later, and the document must not contain a secret until then.
        dialog.remove()
      } catch (error) {
        main.disabled = false
        if (approval.takes(error)) return
        if (!(error instanceof ApiError)) throw error
        const words = typeof failed === 'string' ? failed : failed(error)
        const unknown = html`<strong>The result is unknown.</strong> The service did not respond. Is it running? You can
          safely try again: the change is made only once.`
        put(fault, error.status === 0 ? banner('revoked', unknown) : problem(error, words))
      }
    })
    // For browsers without support for `closedby`.
    const stay = (/** @type {Event} */ event) => event.preventDefault()
    const end = () => {
      if (main.disabled && result === null)
        announce('You closed the dialog before the response. The change may still be made.')
      dialog.remove()
      resolve(result)
    }
    /** @type {HTMLDialogElement} */
    const dialog = one(
      html` <dialog
        class=${wide ? 'wide' : null}
        closedby=${firm ? 'none' : null}
        aria-labelledby="dialog-title"
        @cancel=${firm && stay}
        @close=${end}
      >
        <form autocomplete="off" @submit=${submit}>
          <h2 id="dialog-title">${title}</h2>
          ${body}${approval.element}${fault}
          <div class="actions">${main}${!alone && button('Cancel', () => dialog.close())}</div>
        </form>
      </dialog>`,
    )
    document.body.append(dialog)
    dialog.showModal()
  })
}

/**
 * Show content until the person closes it.
 * @param {unknown} title
 * @param {unknown} body
 */
export const showDetails = (title, body) =>
  ask({ title, body, action: 'Close', run: async () => true, wide: true, alone: true })

/** Header that requests or names an approval. */
export const APPROVAL = 'Rescind-Approval'

/** The part of a dialog that requests or uses an approval, after the service requires one. */
class Approval {
  element = one(html`<div class="body"></div>`)
  /** Value of the header. @type {string | null} */
  #header = null

  /** @param {(words: string | null) => void} label sets the text of the button; null for its default */
  constructor(label) {
    this.label = label
  }

  /**
   * Return the headers of the next call.
   * @param {FormData} form
   * @returns {Record<string, string>}
   */
  headers(form) {
    if (this.#header === null) return {}
    // Headers are ASCII, so the reason is percent-encoded.
    const reason = form.get('approval_reason')
    return {
      [APPROVAL]: this.#header,
      ...(reason !== null && { [`${APPROVAL}-Reason`]: encodeURIComponent(String(reason)) }),
    }
  }

  /**
   * Return whether this part handles an error, because the person can request an approval.
   * @param {unknown} error
   */
  takes(error) {
    if (error instanceof Asked) {
      const { approval_id: id, expires_at: end } = error.approval
      const words = html`<strong>Waiting for approval.</strong> Nothing has changed yet. Any other administrator can
        approve the request on the overview until ${minute(end)} UTC. Then use the approval here or on your overview.`
      this.#become(id, 'Use approval', banner('wait', words))
    } else if (
      this.#header === null &&
      error instanceof ApiError &&
      error.code === 'approval_required' &&
      currentCaller().person_id
    ) {
      const words = html`<strong>Approval required.</strong> Nothing has changed. Another administrator must approve
        this.`
      this.#become(
        'request',
        'Request approval',
        banner('info', words),
        field(
          'Reason for approval',
          html`<textarea name="approval_reason" required maxlength="1024" rows="2" dir="auto"></textarea>`,
          'Shown to the approver and in the audit log.',
        ),
      )
    } else {
      // Without the requirement, the action needs no approval header.
      if (this.#header === 'request' && error instanceof ApiError && error.code === 'invalid_state')
        this.#become(null, null)
      return false
    }
    return true
  }

  /**
   * @param {string | null} header
   * @param {string | null} words
   * @param {...unknown} content
   */
  #become(header, words, ...content) {
    this.#header = header
    this.label(words)
    put(this.element, content)
    this.element.querySelector('textarea')?.focus()
  }
}

/**
 * Show a secret once.
 *
 * The document contains it only as text, until the dialog is closed.
 * @param {string} title
 * @param {string} secret
 * @param {unknown} text the purpose of the secret
 */
export function showSecret(title, secret, text) {
  return ask({
    title,
    action: 'Done',
    run: async () => true,
    firm: true,
    body: html`<p>${text}</p>
      <p><output class="secret">${secret}</output></p>
      ${copyButton(secret)}
      <p class="soft">It is not shown again.</p>`,
  })
}

/** Return a button that copies a text and shows the result next to it. @param {string} text */
export function copyButton(text) {
  const status = one(html`<span class="soft" role="status"></span>`)
  return html`<div class="actions">${button('Copy', async () => put(status, await copyText(text)))}${status}</div>`
}

/**
 * Ask for confirmation, execute, and show a message. Resolves with whether it was executed.
 * @param {object} question
 * @param {unknown} question.title
 * @param {unknown} question.body
 * @param {unknown} question.action the text of the main button
 * @param {(headers: Record<string, string>) => Promise<unknown>} question.run
 * @param {string} question.success a sentence after success
 * @param {string} [question.failed] a sentence
 * @param {boolean} [question.danger] whether it is irreversible
 */
export async function confirm({ run, success, ...question }) {
  const done = await ask({ ...question, run: (_form, headers) => run(headers).then(() => true) })
  if (done) announce(success)
  return done !== null
}

/**
 * Return a submit handler that passes the form to `take` instead of the browser.
 * @param {(form: FormData) => unknown} take
 */
export const submitted = (take) => (/** @type {SubmitEvent} */ event) => {
  event.preventDefault()
  void take(new FormData(/** @type {HTMLFormElement} */ (event.target)))
}

/**
 * Return a labelled field of a form.
 * @param {string} label
 * @param {unknown} input
 * @param {unknown} [hint]
 */
export const field = (label, input, hint = null) =>
  html`<label class="field"><span>${label}</span>${hint && html`<small class="soft">${hint}</small>`}${input}</label>`

/**
 * Return a field for the reason of a change.
 * @param {string} [hint]
 * @param {number} [maxlength]
 */
export const reasonField = (hint = 'Shown with the revocation and in the audit log.', maxlength = 1024) =>
  field('Reason', html`<textarea name="reason" required maxlength=${maxlength} rows="2" dir="auto"></textarea>`, hint)

/**
 * Return a selection: values, their labels, and the initial value.
 * @param {string} name
 * @param {(readonly [string | number, unknown, boolean?])[]} options
 */
export const choice = (name, options) =>
  html`<select name=${name}>
    ${options.map(([value, words, isChosen]) => html`<option value=${value} ?selected=${isChosen}>${words}</option>`)}
  </select>`

/**
 * Return an input for a text that the browser neither completes nor corrects.
 * @param {string} name
 * @param {{type?: string, pattern?: string, value?: string, maxlength?: number, required?: boolean}} options
 */
export const exactInput = (name, { type, pattern, value, maxlength, required = true }) =>
  html`<input
    name=${name}
    type=${type}
    ?required=${required}
    pattern=${pattern}
    value=${value}
    maxlength=${maxlength}
    autocomplete="off"
    spellcheck="false"
  />`

/**
 * Return a checkbox or radio button with its label.
 * @param {unknown} input
 * @param {unknown} words
 */
export const tick = (input, words) => html`<label class="tick">${input} <span>${words}</span></label>`
