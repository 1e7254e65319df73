/** Parses the address of a running service, typed as `--url`. */
import { parseHttpUrl } from '../config/values.ts'
import { badArgument } from '../model/error.ts'
import type { Command } from './command.ts'

/** Parses the address of a service. @throws SvcError `invalid_arguments` if it is not an http or https URL */
export function parseServiceUrl(text: string, path = ''): string {
  const url = parseHttpUrl(text)
  if (url !== undefined) return url
  throw badArgument('--url', 'expected an http or https URL without user name and query', {
    hint: `As in --url http://127.0.0.1:8000${path}.`,
  })
}

/** Parses the address of a service's MCP interface. Adds `/mcp` unless it ends with `/mcp` or `/sse`. */
export function parseMcpUrl(text: string): string {
  const typed = parseServiceUrl(text, '/mcp')
  return /\/(mcp|sse)$/.test(new URL(typed).pathname) ? typed : `${typed}/mcp`
}

/**
 * Rejects options that have no effect beside `--url`, since the service at that address decides them.
 *
 * @param names attribute names of these options
 * @throws SvcError `invalid_arguments` with the first one that was typed
 */
export function rejectBesideUrl(command: Command, names: readonly string[]): void {
  const typed = command.options.find(
    option =>
      names.includes(option.attributeName()) &&
      command.getOptionValueSource(option.attributeName()) === 'cli',
  )
  if (typed)
    throw badArgument(typed.long ?? typed.flags, 'expected without --url', {
      hint: 'The service at that address decides it.',
    })
}
