/** The source text of page.js, which runs in the browser. */
declare const text: string
export default text
