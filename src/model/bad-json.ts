/** Finds the first error in a text that is not valid JSON. Never quotes the text, which may be secret. */
import { SvcError } from './error.ts'

export interface JsonFault {
  /** `a comma is missing` */
  readonly what: string
  /** Number of the line, from 1. */
  readonly line: number
  /** Number of the column, from 1, in UTF-16 code units, as editors count. */
  readonly column: number
}

/** Descriptions of the errors of jsonc-parser, by its names. */
const faultWords: Readonly<Record<string, string>> = {
  InvalidSymbol: 'an unknown word or sign',
  InvalidNumberFormat: 'a wrong number',
  PropertyNameExpected: 'a name in double quotes is missing',
  ValueExpected: 'a value is missing',
  ColonExpected: 'a colon is missing',
  CommaExpected: 'a comma is missing',
  CloseBraceExpected: 'a closing brace is missing',
  CloseBracketExpected: 'a closing bracket is missing',
  EndOfFileExpected: 'something follows the value',
  InvalidCommentToken: 'a comment',
  UnexpectedEndOfComment: 'a comment without an end',
  UnexpectedEndOfString: 'a string without an end',
  UnexpectedEndOfNumber: 'an unfinished number',
  InvalidUnicode: 'a string with a wrong escape begins',
  InvalidEscapeCharacter: 'a string with a wrong escape begins',
  InvalidCharacter: 'a string with a control character begins',
}

/** @param code the error's name in jsonc-parser, with the offset and length that it reports */
export function createFault(text: string, code: string, offset: number, length: number): JsonFault {
  // For an element without an end, jsonc-parser reports where the element begins.
  const at = code.startsWith('UnexpectedEnd') ? offset + length : offset
  let line = 1
  let begin = 0
  for (let next = text.indexOf('\n'); next !== -1 && next < at; next = text.indexOf('\n', begin)) {
    line++
    begin = next + 1
  }
  return { what: faultWords[code] ?? 'a fault', line, column: at - begin + 1 }
}

/** Formats an error of JSON: `a comma is missing at line 3, column 14`. */
export const formatFault = ({ what, line, column }: JsonFault): string =>
  `${what} at line ${line}, column ${column}`

/** Longer texts are not searched, because the search cannot be split into slices. */
const maxSearchedLength = 256 * 1024
/** The search stops at deeper nesting: jsonc-parser calls itself for each level. */
const maxDepth = 500

/** Returns the first error; undefined if none is found, and for a text of over 256 Ki characters. */
export async function findFault(text: string): Promise<JsonFault | undefined> {
  if (text.length > maxSearchedLength) return undefined
  // Loaded at its first use: only an error needs it.
  const { printParseErrorCode, visit } = await import('jsonc-parser')
  let fault: JsonFault | undefined
  let depth = 0
  const stop = new Error('stop')
  const begin = () => {
    if (++depth > maxDepth) throw stop
  }
  const end = () => void depth--
  try {
    visit(
      text,
      {
        onObjectBegin: begin,
        onArrayBegin: begin,
        onObjectEnd: end,
        onArrayEnd: end,
        onError(code, offset, length) {
          fault = createFault(text, printParseErrorCode(code), offset, length)
          throw stop
        },
      },
      { disallowComments: true },
    )
  } catch (error) {
    if (error !== stop) throw error
  }
  return fault
}

/** Returns the error for a text that is not valid JSON. @param subject for example `The body` */
export async function createBadJsonError(subject: string, text: string, cause?: unknown): Promise<SvcError> {
  const fault = await findFault(text)
  if (!fault) return new SvcError('bad_json', `${subject} is not valid JSON`, { cause })
  const { line, column } = fault
  return new SvcError('bad_json', `${subject} is not valid JSON: ${formatFault(fault)}`, {
    details: { line, column },
    cause,
  })
}
