/** The address of a running service, as it is typed with `--url`. */
import { httpUrl } from '../config/values.ts'
import { badArgument } from '../model/error.ts'
import type { Command } from './command.ts'

/** The address of a service. @throws SvcError `invalid_arguments` for what is none */
export function typedUrl(text: string, path = ''): string {
  const url = httpUrl(text)
  if (url !== undefined) return url
  throw badArgument('--url', 'expected an http or https URL without user name and query', {
    hint: `As in --url http://127.0.0.1:8000${path}.`,
  })
}

/** The same, of MCP: `/mcp` is added where no path of svc's MCP stands at the end. */
export function typedMcpUrl(text: string): string {
  const typed = typedUrl(text, '/mcp')
  return /\/(mcp|sse)$/.test(new URL(typed).pathname) ? typed : `${typed}/mcp`
}

/** With `--url` those of a service's options cannot be given. @throws SvcError `invalid_arguments` naming one that was typed */
export function refuseBesideUrl(command: Command, names: readonly string[]): void {
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
