/** page.js is taken in as text: it runs in the browser, not here. */
declare const text: string
export default text
