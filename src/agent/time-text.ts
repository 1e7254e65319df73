/** What people read about times at which an agent is to do something. */
import type { NewTime, StoredTime } from '../index.ts'
import { formatRule, type ReadTime, type Unclear } from '../model/spoken-time.ts'
import { leastMinutes, minuteMs } from '../model/time-rule.ts'
import { toOneLine } from './question-text.ts'

const mostListed = 20
const wordsLength = 60

const english = {
  moved: 'That time has passed; the next one: ',
  cancel: 'To cancel it:',
  cancelled: 'Cancelled: ',
  missed: 'Not done, since svc was away: ',
  still: ' (stands still since svc was restored: set it again)',
  broken: ' (cannot be read any more: set it again)',
  pauses: ' (pauses until you have its last answer)',
  none: 'Nothing is set. Such as: /at tomorrow 7:30 Water the plants',
  unknown: 'Nothing has this number. /times shows the numbers.',
  notYours: 'Only the owner of the account can do this.',
  tooMany: 'No more times can be set. /times shows them; /cancel and a number ends one.',
  words: 'Nothing is set yet: to do what? Send the time and the words:',
  unsure: 'Nothing is set yet. If you mean this, send:',
  form: 'Nothing is set: the time is not clear. Such as: /at tomorrow 7:30, /at 2026-12-24 18:00, /in 2h, /every weekday 8:00, and then the words.',
  absent: 'Nothing is set: there is no such day.',
  past: 'Nothing is set: that time has passed.',
  proposes: (agent: string) => `${agent} proposes a time, and what it then gets as a prompt:`,
  choices: (code: string) => [
    `${code} 1 = set it`,
    `${code} 2 = do not`,
    'Only a line with this code counts.',
  ],
  declined: 'Not set.',
  often: `Nothing is set: at least ${leastMinutes} minutes must lie between two times.`,
}

const chinese: typeof english = {
  moved: '这个时间已过，改为下一次：',
  cancel: '取消请发：',
  cancelled: '已取消：',
  missed: 'svc 离线，没有执行：',
  still: '（恢复备份后已停止，请重新设置）',
  broken: '（已无法读取，请重新设置）',
  pauses: '（收到上次的回答后继续）',
  none: '没有定时任务。例如：定时 明早七点半 浇花',
  unknown: '没有这个编号。「定时列表」可查看编号。',
  notYours: '只有账号的主人可以这样做。',
  tooMany: '定时任务太多了。「定时列表」可查看，/cancel 加编号可取消。',
  words: '还没有设置：要做什么？请发送时间和要做的事：',
  unsure: '还没有设置。如果是这个意思，请发：',
  form: '没有设置：没有看懂时间。例如：定时 明早七点半、/at 12月24日18点、/in 两小时、定时 每个工作日8点，后面写要做的事。',
  absent: '没有设置：没有这一天。',
  past: '没有设置：这个时间已经过了。',
  proposes: agent => `${agent} 建议一个定时任务，到时它收到的内容是：`,
  choices: code => [`${code} 1 = 设置`, `${code} 2 = 不设置`, '只有带此代码的回复有效。'],
  declined: '没有设置。',
  often: `没有设置：两次之间至少间隔 ${leastMinutes} 分钟。`,
}

const onceOf = ({ rule }: StoredTime) => ('problem' in rule ? rule : { at: 0 })

function textsIn(
  isChinese: boolean,
  { broken, cancel, cancelled, missed, moved, none, pauses, proposes, still, ...say }: typeof english,
) {
  /** The time with its day of the week, and how a series goes on. */
  const moment = ({ due, rule }: Pick<ReadTime, 'due' | 'rule'>, zone: string) => {
    const shown = new Intl.DateTimeFormat(isChinese ? 'zh-CN' : 'en-GB', {
      ...({ weekday: 'short', year: 'numeric', month: 'short', day: 'numeric' } as const),
      ...({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: zone } as const),
      ...(due % minuteMs >= 1000 && { second: '2-digit' }),
    }).format(due)
    return `${shown}${'at' in rule ? '' : `, ${formatRule(rule, zone, isChinese)}`} (${zone})`
  }
  const line = ({ agent, due_at: due, prompt, rule, zone }: StoredTime) => {
    const when =
      due === undefined || 'problem' in rule ? formatRule(rule, zone, isChinese) : moment({ due, rule }, zone)
    return `${when}: ${agent === undefined ? '' : `[${agent}] `}${toOneLine(prompt, wordsLength)}`
  }
  const list = (times: readonly StoredTime[], write: (time: StoredTime) => string, separator: string) =>
    [...times.slice(0, mostListed).map(write), ...(times.length > mostListed ? ['…'] : [])].join(separator)
  const stateOf = ({ due_at, isWaiting, rule }: StoredTime) =>
    'problem' in rule ? broken : isWaiting ? pauses : due_at === undefined ? still : ''
  return {
    ...say,
    added: (time: StoredTime, isMoved: boolean) =>
      `${isMoved ? moved : ''}${line(time)}\n${cancel} /cancel ${time.id}`,
    listed: (times: readonly StoredTime[]) =>
      list(times, time => `${time.id}. ${line(time)}${stateOf(time)}`, '\n') || none,
    broken: (time: StoredTime) => line(time) + broken,
    /** Shows all the words. */
    proposed: (agent: string, { due_at: due = 0, prompt, rule, zone }: NewTime, code: string) =>
      [
        proposes(toOneLine(agent, wordsLength)),
        `> ${moment({ due, rule }, zone)}: ${toOneLine(prompt, Number.POSITIVE_INFINITY)}`,
        ...say.choices(code),
      ].join('\n'),
    moment,
    cancelled: (time: StoredTime) => `${cancelled}${line(time)}`,
    missed: (times: readonly StoredTime[]) =>
      missed + list(times, time => line({ ...time, due_at: time.missed_at ?? 0, rule: onceOf(time) }), '; '),
    /** Asks back, with the time as it was understood, if it was. */
    unclear: (why: Unclear['why'] | 'words', zone: string, as?: Unclear['as']) =>
      as ? `${moment(as, zone)}\n${say[why]} /at ${formatRule(as.rule, zone, isChinese)} …` : say[why],
  }
}

export const englishTimes = textsIn(false, english)
export const chineseTimes: typeof englishTimes = textsIn(true, chinese)
