/**
 * Programs that speak WeChat's protocol, and where each takes its address and token (from their public pages and sources,
 * November 2026), and how svc writes that into files.
 */
import { join } from 'node:path'
import type { RelayProgram } from '../model/relay.ts'
import { createDurably, makePrivate } from '../platform/files.ts'
import { readSettings, unchangedError, writeSettings } from './settings-file.ts'

/** What every program needs. */
export interface RelayFacts {
  readonly token: string
  readonly base_url: string
  readonly cdn_url: string
  readonly bot_id: string
  readonly user_id?: string | undefined
}

/** `file` begins with `~/`; without it, the person puts the text where the program takes it. */
export interface RelaySetting {
  readonly file?: string
  readonly text: string
}

const asJson = (value: object): string => `${JSON.stringify(value, null, 2)}\n`
const asLines = (values: Readonly<Record<string, string>>, between = '='): string =>
  Object.entries(values)
    .map(([name, value]) => `${name}${between}${value}\n`)
    .join('')

const programs: Readonly<Record<RelayProgram, (facts: RelayFacts) => RelaySetting[]>> = {
  openclaw({ base_url: baseUrl, bot_id, token, user_id: userId }) {
    const id = bot_id.toLowerCase().replace(/[^a-z0-9_-]+/g, '-')
    const folder = '~/.openclaw/openclaw-weixin'
    return [
      { file: `${folder}/accounts/${id}.json`, text: asJson({ token, baseUrl, userId }) },
      { file: `${folder}/accounts.json`, text: asJson([id]) },
    ]
  },
  weilink: ({ base_url, bot_id, token, user_id }) => [
    {
      file: '~/.weilink/default/token.json',
      text: asJson({ bot_id, base_url, token, user_id, cursor: '' }),
    },
  ],
  hermes: ({ base_url, bot_id, cdn_url, token }) => [
    {
      file: '~/.hermes/.env',
      text: asLines({
        WEIXIN_ACCOUNT_ID: bot_id,
        WEIXIN_TOKEN: token,
        WEIXIN_BASE_URL: base_url,
        WEIXIN_CDN_BASE_URL: cdn_url,
      }),
    },
  ],
  'cc-connect': ({ base_url, cdn_url, token }) => [
    { text: `cc-connect weixin bind --token ${token} --api-url ${base_url} --cdn-url ${cdn_url}\n` },
  ],
  // Its file data/cmd_config.json has many platforms, and is beside the program.
  astrbot: ({ base_url, bot_id, cdn_url, token }) => [
    {
      text: asJson({
        weixin_oc_token: token,
        weixin_oc_account_id: bot_id,
        weixin_oc_base_url: base_url,
        weixin_oc_cdn_base_url: cdn_url,
      }),
    },
  ],
  langbot: ({ base_url, token }) => [{ text: asLines({ token, base_url }, ': ') }],
  'wechat-acp': ({ base_url: baseUrl, bot_id: accountId, cdn_url, token, user_id: userId }) => [
    { file: '~/.wechat-acp/token.json', text: asJson({ token, baseUrl, accountId, userId }) },
    { text: asLines({ 'wechat.cdnBaseUrl': cdn_url }, ': ') },
  ],
  nonebot: ({ base_url, cdn_url, token }) => [
    { text: asLines({ CLAWEIXIN_TOKEN: token, CLAWEIXIN_API_ROOT: base_url, CLAWEIXIN_CDN_ROOT: cdn_url }) },
  ],
}

export const relaySettingsOf = (program: RelayProgram, facts: RelayFacts): RelaySetting[] =>
  programs[program](facts)

/**
 * Writes a setting into its file: entries of a list and other lines stay, other fields of an object too. A file that was
 * there is copied before.
 *
 * @returns the path, and that of the copy
 * @throws SvcError `forbidden` for a file that was left unchanged
 */
export async function writeRelaySetting(
  { file, text }: { file: string; text: string },
  home: string,
  now: number,
): Promise<{ path: string; copy?: string }> {
  const path = join(home, file.slice('~/'.length))
  const found = await readSettings(path)
  const after = found.text.trim() === '' ? text : merge(path, found.text, text)
  if (after === found.text) return { path }
  // The oldest copy has what was there before svc.
  let copy: string | undefined
  for (const name of found.isThere ? [`${path}.bak`, `${path}.${now}.bak`] : [])
    if (copy === undefined && (await createDurably(name, found.mark + found.text))) copy = name
  await writeSettings(found, after)
  await makePrivate(found.target)
  return { path, ...(copy !== undefined && { copy }) }
}

/** @throws SvcError `forbidden` */
function merge(path: string, before: string, text: string): string {
  if (path.endsWith('.env')) {
    const names = text
      .trimEnd()
      .split('\n')
      .map(line => line.split('=')[0])
    const others = before
      .trimEnd()
      .split('\n')
      .filter(line => !names.includes(line.split('=')[0]))
    return [...others, text].join('\n')
  }
  const [old, added]: unknown[] = [parse(path, before), JSON.parse(text)]
  if (Array.isArray(old) !== Array.isArray(added)) return rejectOther(path)
  if (Array.isArray(old) && Array.isArray(added)) return asJson([...new Set([...old, ...added])])
  return asJson({ ...(old as object), ...(added as object) })
}

function parse(path: string, text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value
  } catch {}
  return rejectOther(path)
}

function rejectOther(path: string): never {
  throw unchangedError(path, 'is not the JSON that its program writes')
}
