/** A file that the bundler embeds: imported `with { type: 'file' }`, it is the path of a copy. */
declare module '*.br' {
  const path: string
  export default path
}
