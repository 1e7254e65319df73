/** Runs `svc mcp --url`: connects standard input and output to the MCP interface of a running service. */
import { listOpenFiles, openFileWarning, secretFilesOf } from '../config/token-file.ts'
import type { Config } from '../config.ts'
import { listNotedAddresses } from '../inspect/healthz.ts'
import { badArgument } from '../model/error.ts'
import { socketPathOf } from '../platform/fetch.ts'
import { bypassProxyForLoopback, keepStdoutClean } from '../platform/process.ts'
import { readKeyFile, readTokenOption } from '../server/token.ts'
import { type Command, configFrom } from './command.ts'
import { serverLog } from './serving.ts'
import { parseMcpUrl, rejectBesideUrl } from './typed-url.ts'

/** Options of the bridge. All others belong to the service and are rejected. */
const bridgeOptions = [
  'url',
  'token',
  'tokenFile',
  'keyFile',
  'logLevel',
  'logFormat',
  'transport',
  'consumer',
]

/** Runs until the client disconnects or a signal arrives. @throws SvcError if the service cannot be used */
export async function runBridge(command: Command): Promise<void> {
  const { url } = command.opts<{ url: string }>()
  const address = socketPathOf(url) === undefined ? parseMcpUrl(url) : url
  const names = command.options.map(option => option.attributeName())
  rejectBesideUrl(
    command,
    names.filter(name => !bridgeOptions.includes(name)),
  )
  const config = configFrom(command, { port: '0', sandboxPort: '0' })
  if (command.opts<{ transport?: string }>().transport !== undefined && config.transport !== 'stdio')
    throw badArgument('--transport', 'expected stdio with --url', {
      hint: 'A program that talks HTTP reaches the service at that address by itself.',
    })
  keepStdoutClean()
  bypassProxyForLoopback()
  const { bridgeMcp } = await import('../mcp/bridge.ts')
  const log = (await serverLog(config, command)).child('mcp')
  for (const path of listOpenFiles(secretFilesOf(config))) log.warn(openFileWarning(path))
  const { consumer } = config
  const bridge = bridgeMcp({
    url: address,
    ...(consumer !== undefined && { consumer }),
    token: await readToken(config),
    fingerprint: await findFingerprint(config, address),
    log,
  })
  command.io.onStop(() => void bridge.close())
  await bridge.ended
}

/** Returns the fingerprint of the certificate, if the service runs on this machine and wrote it down. */
async function findFingerprint({ basePath }: Config, url: string): Promise<string | undefined> {
  if (!url.startsWith('https:')) return undefined
  const noted = (await listNotedAddresses(basePath)).find(
    one => URL.parse(one.url)?.origin === new URL(url).origin,
  )
  return noted?.certificate?.fingerprint
}

/** Returns the token for the service, if one is given. @throws SvcError `invalid_arguments` */
async function readToken({ keyFile, token, tokenFile }: Config): Promise<string | undefined> {
  if (keyFile === undefined) return readTokenOption({ token, tokenFile })
  if (token === undefined && tokenFile === undefined) return readKeyFile(keyFile)
  throw badArgument('--key-file', 'expected without --token and --token-file', {
    hint: 'Use only one of them; SVC_KEY_FILE, SVC_TOKEN and SVC_TOKEN_FILE count too.',
  })
}
