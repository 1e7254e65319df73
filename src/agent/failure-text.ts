/** Why a turn failed, in one line for the owner: what happened, what the program said last, and what to do. */
import { isSvcError } from '../index.ts'
import { AgentFailure, type FailureReason } from './process.ts'
import { toPublicLine } from './redact.ts'

/** What the owner can do. */
type Advice = 'limit' | 'login' | 'options' | 'model' | 'acp' | 'again'

/** What people read about failures. */
export interface FailureTexts {
  readonly how: Readonly<Record<FailureReason['how'], (value: string) => string>>
  readonly advice: Readonly<Record<Advice, string>>
  line(what: string, said: string, advice: string): string
}

export const englishFailures: FailureTexts = {
  how: {
    status: value => `The program ended with status ${value}`,
    signal: value => `The program was ended by ${value}`,
    error: () => 'The agent failed',
    unreachable: value => `The model at ${value} cannot be reached`,
    refused: value => `The model's address answered with status ${value}`,
    acp: () => 'The program does not answer as an ACP agent',
  },
  advice: {
    limit: 'Wait until that limit is over.',
    login: 'Log in with its program in a terminal once, or check its key; then send the message again.',
    options: 'Check the options behind "--" with which svc agent was started.',
    model: 'Start the model, or check its address and the network; then send the message again.',
    acp: 'Check its options, or start svc agent without --acp.',
    again: 'Send the message again; if that fails too, run the program by hand.',
  },
  line: (what, said, advice) => `${what}${said && `: ${said}`}${/[.!?…]$/.test(said) ? '' : '.'} ${advice}`,
}

export const chineseFailures: FailureTexts = {
  how: {
    status: value => `程序以状态 ${value} 结束`,
    signal: value => `程序被 ${value} 终止`,
    error: () => '智能体出错',
    unreachable: value => `无法连接 ${value} 的模型`,
    refused: value => `模型地址返回状态 ${value}`,
    acp: () => '程序没有按 ACP 应答',
  },
  advice: {
    limit: '请等限额恢复后再试。',
    login: '请在终端登录一次，或检查密钥，然后再发一次。',
    options: '请检查 svc agent 启动命令中“--”后面的选项。',
    model: '请启动模型，或检查地址和网络，然后再发一次。',
    acp: '请检查它的选项，或不带 --acp 启动 svc agent。',
    again: '请再发一次；如果仍然失败，请手动运行该程序。',
  },
  line: (what, said, advice) =>
    `${what}${said && `：${said}`}${/[.!?…。！？]$/.test(said) ? ' ' : '。'}${advice}`,
}

/** What programs say in each case. The first match counts: "log in to raise your usage limit" is a limit. */
const signs: readonly (readonly [Advice, RegExp])[] = [
  [
    'limit',
    /\b(?:usage|rate|session|weekly|daily|spend(?:ing)?|requests?|tokens?|plan)\b.{0,20}\blimit|\b(?:quota|credits?|balance)\b|too many requests|overloaded|\b(?:429|529)\b|限额|额度|余额/i,
  ],
  [
    'login',
    /\blog ?(?:in|ged out)\b|\bsign ?in\b|authenti|unauthori[sz]ed|\bapi.?key\b|credential|\b40[13]\b|登录|密钥/i,
  ],
  [
    'options',
    /\b(?:unknown|unrecogni[sz]ed|unexpected|invalid|illegal|no such)\b.{0,30}\b(?:option|argument|flag|command)/i,
  ],
  [
    'model',
    /ECONN|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|fetch failed|unable to connect|\b(?:connection|network)\b.{0,30}\b(?:error|refused|failed|reset)|could not (?:connect|resolve)/i,
  ],
]

/** Returns why a turn failed, for its owner. No secret is in it (`redact.ts`). */
export function formatFailure(error: unknown, texts: FailureTexts): string {
  const { how, said = '', value = '' } = reasonOf(error)
  const line = toPublicLine(said)
  const whole = `${said} ${how === 'refused' ? value : ''}`
  const [found] = signs.find(([, sign]) => sign.test(whole)) ?? []
  const rest = how === 'acp' ? 'acp' : how === 'unreachable' ? 'model' : 'again'
  return texts.line(texts.how[how](String(value)), line, texts.advice[found ?? rest])
}

function reasonOf(error: unknown): FailureReason {
  if (error instanceof AgentFailure) return error.reason
  if (isSvcError(error)) return { how: 'error', said: `${error.problem}. ${error.hint}` }
  return { how: 'error', said: error instanceof Error ? error.message : String(error) }
}
