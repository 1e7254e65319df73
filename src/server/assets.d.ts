/** A file that the bundler embeds. Imported `with { type: 'file' }`, its value is the path of a copy. */
declare module '*.br' {
  const path: string
  export default path
}

/** A file that the bundler embeds as text. */
declare module '*.py' {
  const text: string
  export default text
}
