/** Files that the bundler embeds: imported `with { type: 'file' }`, they are the path of a copy. */
declare module '*.css' {
  const path: string
  export default path
}
declare module '*/swagger-ui-bundle.js' {
  const path: string
  export default path
}
declare module '*.png' {
  const path: string
  export default path
}
