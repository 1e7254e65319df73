/** A style sheet taken in as text, by Bun, Deno and the compiled binary alike. */
declare module '*.css' {
  const text: string
  export default text
}
