/** Words as systemd reads them in a unit and in an environment file, and back. See systemd.syntax(7), systemd.service(5). */

/** What cannot stand in a unit in any spelling, or is nobody's intention there. */
export const isUnspeakable = (word: string): boolean => /\p{Cc}/u.test(word)

const quoted = (word: string) => `"${word.replace(/[\\"]/g, '\\$&')}"`
const needsQuotes = (word: string) =>
  word === '' || !/^[\p{L}\p{N}@+=:,./_~-]+$/u.test(word.replace(/%%|\$\$/g, ''))

/** A percent sign begins a specifier wherever systemd expands any. */
const unspecified = (word: string) => word.replaceAll('%', '%%')

/** The value of `ExecStart=`: no variable is expanded in the program's path, but in each argument. */
export const execLine = ([program = '', ...args]: readonly string[]): string =>
  [unspecified(program), ...args.map(arg => unspecified(arg).replaceAll('$', '$$$$'))]
    .map(word => (needsQuotes(word) ? quoted(word) : word))
    .join(' ')

/** A path in a list of paths, as of `ReadWritePaths=`. */
export const pathWord = (path: string): string => {
  const word = unspecified(path)
  return needsQuotes(word) ? quoted(word) : word
}

/** The path of `EnvironmentFile=`, which takes the rest of the line as it is. */
export const restOfLine = (path: string): string => unspecified(path)

/** A line of an environment file: nothing is expanded there. */
export const environmentLine = (name: string, value: string): string =>
  `${name}="${value.replace(/[\\"`$]/g, '\\$&')}"`

/** What `execLine` was made of. */
export function readExecLine(line: string): string[] {
  const words = [...line.matchAll(/"((?:\\.|[^"\\])*)"|(\S+)/g)].map(([, inQuotes, plain]) =>
    (inQuotes === undefined ? plain! : inQuotes.replace(/\\(.)/g, '$1')).replaceAll('%%', '%'),
  )
  return words.map((word, at) => (at === 0 ? word : word.replaceAll('$$', '$')))
}
