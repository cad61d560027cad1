/** Dialogs: a question with its answer, or a form. */

import { ApiError } from '../api.js'
import { html, one, put } from '../html.js'
import { problem } from './panel.js'

/**
 * Ask. Resolves with what `run` gave, or with null if the person closed the dialog. If `run` throws
 * an `ApiError`, the dialog says so and stays.
 * @template T
 * @param {object} question
 * @param {unknown} question.title
 * @param {unknown} question.body
 * @param {unknown} question.action the words of the button that does it
 * @param {(form: FormData) => Promise<T>} question.run
 * @param {string} [question.failed] a sentence
 * @param {boolean} [question.danger] whether it cannot be undone
 * @param {boolean} [question.wide]
 * @returns {Promise<T | null>}
 */
export function ask({ title, body, action, run, failed = 'That could not be done.', danger = false, wide = false }) {
  return new Promise((resolve) => {
    const fault = one(html`<div></div>`)
    const button = /** @type {HTMLButtonElement} */ (one(html`<button class=${danger ? 'danger' : 'main'}>${action}</button>`))
    const submit = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault()
      button.disabled = true
      put(fault)
      try {
        const result = await run(new FormData(/** @type {HTMLFormElement} */ (event.target)))
        close(result)
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        put(fault, problem(error, failed))
        button.disabled = false
      }
    }
    const dialog = /** @type {HTMLDialogElement} */ (one(html`
      <dialog class=${wide ? 'wide' : null} aria-labelledby="dialog-title" @cancel=${() => close(null)}>
        <form @submit=${submit}>
          <h2 id="dialog-title">${title}</h2>${body}${fault}
          <div class="actions">${button}<button type="button" @click=${() => close(null)}>Cancel</button></div>
        </form>
      </dialog>`))
    const close = (/** @type {T | null} */ result) => {
      dialog.close()
      dialog.remove()
      resolve(result)
    }
    document.body.append(dialog)
    dialog.showModal()
  })
}

/**
 * Show a secret once. It is in the document as text only, and leaves it when the dialog is closed.
 * @param {string} title
 * @param {string} secret
 * @param {unknown} text what it is for
 */
export function showSecret(title, secret, text) {
  const stored = 'I have stored it'
  return ask({
    title, action: stored, run: async () => true,
    body: html`<p>${text}</p><p><output class="secret">${secret}</output></p>
      <p><button type="button" @click=${() => navigator.clipboard?.writeText(secret)}>Copy</button></p>
      <p class="soft">It is not shown again.</p>`,
  })
}

/**
 * A labelled field of a form.
 * @param {string} label
 * @param {unknown} input
 * @param {unknown} [hint]
 */
export const field = (label, input, hint = null) => html`<label class="field"><span>${label}</span>${hint && html`<small class="soft">${hint}</small>`}${input}</label>`
