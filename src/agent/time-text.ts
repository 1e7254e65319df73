/** What people read about times at which an agent is to do something. */
import type { StoredTime } from '../index.ts'
import { formatRule, type ReadTime, type Unclear } from '../model/spoken-time.ts'
import { leastMinutes } from '../model/time-rule.ts'
import { toOneLine } from './question-text.ts'

const mostListed = 20
const wordsLength = 60

/** Returns functions that write times in a language. */
function writersIn(isChinese: boolean) {
  /** The time with its day of the week, and how a series goes on. */
  const moment = ({ due, rule }: Pick<ReadTime, 'due' | 'rule'>, zone: string) => {
    const format = new Intl.DateTimeFormat(isChinese ? 'zh-CN' : 'en-GB', {
      ...({ weekday: 'short', year: 'numeric', month: 'short', day: 'numeric' } as const),
      ...({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: zone } as const),
    })
    return `${format.format(due)}${'at' in rule ? '' : `, ${formatRule(rule, zone, isChinese)}`} (${zone})`
  }
  const line = ({ due_at, prompt, rule, zone }: StoredTime) =>
    `${due_at === undefined ? formatRule(rule, zone, isChinese) : moment({ due: due_at, rule }, zone)}: ${toOneLine(prompt, wordsLength)}`
  const lines = (times: readonly StoredTime[], write: (time: StoredTime) => string) =>
    [...times.slice(0, mostListed).map(write), ...(times.length > mostListed ? ['…'] : [])].join('\n')
  const missed = (times: readonly StoredTime[]) =>
    lines(times, time => line({ ...time, due_at: time.missed_at ?? 0, rule: { at: 0 } })).replaceAll(
      '\n',
      '; ',
    )
  return { moment, line, lines, missed }
}

const inEnglish = writersIn(false)
const inChinese = writersIn(true)

const reasons = {
  form: 'This time is not clear. Such as: /at tomorrow 7:30, /at 2026-12-24 18:00, /in 2h, /every weekday 8:00, and then the words.',
  absent: 'There is no such day.',
  past: 'That time has passed.',
  often: `At least ${leastMinutes} minutes must lie between two times.`,
  unsure: '',
}
const chineseReasons: typeof reasons = {
  form: '没有看懂时间。例如：定时 明早七点半、/at 12月24日18点、/in 两小时、定时 每个工作日8点，后面写要做的事。',
  absent: '没有这一天。',
  past: '这个时间已经过了。',
  often: `两次之间至少间隔 ${leastMinutes} 分钟。`,
  unsure: '',
}

export const englishTimes = {
  added: (time: StoredTime, isMoved: boolean) =>
    `${isMoved ? 'That time has passed; the next one is: ' : ''}${inEnglish.line(time)}\nTo cancel it: /cancel ${time.id}`,
  listed: (times: readonly StoredTime[]) =>
    inEnglish.lines(times, time => {
      const still = time.due_at === undefined ? ' (stands still since svc was restored: set it again)' : ''
      return `${time.id}. ${inEnglish.line(time)}${time.isWaiting ? ' (pauses until you have its last answer)' : still}`
    }) || 'Nothing is set. Such as: /at tomorrow 7:30 Water the plants',
  cancelled: (time: StoredTime) => `Cancelled: ${inEnglish.line(time)}`,
  unknown: 'Nothing has this number. /times shows the numbers.',
  notYours: 'Only the owner of the account can do this.',
  tooMany: 'No more times can be set. /times shows them; /cancel and a number ends one.',
  missed: (times: readonly StoredTime[]) => `Not done, since svc was away: ${inEnglish.missed(times)}`,
  wordless: (read: ReadTime, zone: string) =>
    `${inEnglish.moment(read, zone)}: to do what? Send it once more, with the words behind it.`,
  unclear: ({ as, why }: Unclear, zone: string) =>
    as
      ? `Nothing is set. If you mean ${inEnglish.moment(as, zone)}: /at ${formatRule(as.rule, zone)} and the words.`
      : `Nothing is set. ${reasons[why]}`,
}

export const chineseTimes: typeof englishTimes = {
  added: (time, isMoved) =>
    `${isMoved ? '这个时间已过，改为下一次：' : ''}${inChinese.line(time)}\n取消请发：/cancel ${time.id}`,
  listed: times =>
    inChinese.lines(times, time => {
      const still = time.due_at === undefined ? '（恢复备份后已停止，请重新设置）' : ''
      return `${time.id}. ${inChinese.line(time)}${time.isWaiting ? '（收到上次的回答后继续）' : still}`
    }) || '没有定时任务。例如：定时 明早七点半 浇花',
  cancelled: time => `已取消：${inChinese.line(time)}`,
  unknown: '没有这个编号。「定时列表」可查看编号。',
  notYours: '只有账号的主人可以这样做。',
  tooMany: '定时任务太多了。「定时列表」可查看，/cancel 加编号可取消。',
  missed: times => `svc 离线，没有执行：${inChinese.missed(times)}`,
  wordless: (read, zone) => `${inChinese.moment(read, zone)}：要做什么？请在时间后面写上，再发一次。`,
  unclear: ({ as, why }, zone) =>
    as
      ? `没有设置。如果是指 ${inChinese.moment(as, zone)}，请发：/at ${formatRule(as.rule, zone)} 加要做的事。`
      : `没有设置。${chineseReasons[why]}`,
}
