/** How times are read as people write them, and which are not guessed. */
import { describe, expect, test } from 'bun:test'
import { formatRule, readTime } from '../../src/model/spoken-time.ts'
import { clockIn, momentOf, type TimeRule } from '../../src/model/time-rule.ts'

const zone = 'Asia/Shanghai'
/** Wednesday, 2026-12-02 10:00 in the zone. */
const now = momentOf(zone, Date.UTC(2026, 11, 2, 10, 0))

/** Returns the first time and the words as `2026-12-02 18:00 | words`, with the rule of a series; or why it is unclear. */
function meaningOf(text: string, at = now): string {
  const read = readTime(text, { now: at, zone })
  if ('why' in read) return read.why
  const shown = new Date(clockIn(zone, read.due)).toISOString().slice(0, 16).replace('T', ' ')
  const series = 'at' in read.rule ? '' : ` ${JSON.stringify(read.rule)}`
  return `${shown}${series}${read.isMoved ? ' moved' : ''} | ${read.rest}`
}

const once: readonly (readonly [text: string, when: string])[] = [
  ['18:30', '2026-12-02 18:30'],
  ['7:30', '2026-12-03 07:30 moved'],
  ['at 7:30', '2026-12-03 07:30 moved'],
  ['8', '2026-12-03 08:00 moved'],
  ['20', '2026-12-02 20:00'],
  ['8pm', '2026-12-02 20:00'],
  ['8 p.m.', '2026-12-02 20:00'],
  ['8:15 PM', '2026-12-02 20:15'],
  ['12am', '2026-12-03 00:00 moved'],
  ['12 pm', '2026-12-02 12:00'],
  ['noon', '2026-12-02 12:00'],
  ["8 o'clock", '2026-12-03 08:00 moved'],
  ['8 in the evening', '2026-12-02 20:00'],
  ['11 at night', '2026-12-02 23:00'],
  ['24:00', '2026-12-03 00:00'],
  ['tonight 9', '2026-12-02 21:00'],
  ['tonight at 9:15', '2026-12-02 21:15'],
  ['this evening at 7', '2026-12-02 19:00'],
  ['today 18:00', '2026-12-02 18:00'],
  ['tomorrow 7:30', '2026-12-03 07:30'],
  ['tomorrow at 7:30 am', '2026-12-03 07:30'],
  ['tomorrow morning at 8', '2026-12-03 08:00'],
  ['tomorrow, 9:00', '2026-12-03 09:00'],
  ['tomorrow 1 pm', '2026-12-03 13:00'],
  ['day after tomorrow 3pm', '2026-12-04 15:00'],
  ['the day after tomorrow at noon', '2026-12-04 12:00'],
  ['fri 9am', '2026-12-04 09:00'],
  ['Friday 9:00', '2026-12-04 09:00'],
  ['on friday at 9', '2026-12-04 09:00'],
  ['this friday 9:00', '2026-12-04 09:00'],
  ['wed 9:00', '2026-12-09 09:00 moved'],
  ['wed 11:00', '2026-12-02 11:00'],
  ['tues 9:00', '2026-12-08 09:00'],
  ['thursday 9:00', '2026-12-03 09:00'],
  ['2026-12-24 18:00', '2026-12-24 18:00'],
  ['2026-12-24T18:00', '2026-12-24 18:00'],
  ['2027-1-5 9:00', '2027-01-05 09:00'],
  ['dec 24 18:00', '2026-12-24 18:00'],
  ['December 24th at 6pm', '2026-12-24 18:00'],
  ['24 December 18:00', '2026-12-24 18:00'],
  ['on the 24th of december, 18:00', '2026-12-24 18:00'],
  ['1 may 2027 9:00', '2027-05-01 09:00'],
  ['jan 5 9:00', '2027-01-05 09:00 moved'],
  ['nov 5 9:00', '2027-11-05 09:00 moved'],
  ['on the 24th at 9', '2026-12-24 09:00'],
  ['the 1st 9:00', '2027-01-01 09:00 moved'],
  ['in 2h', '2026-12-02 12:00'],
  ['in 2 hours', '2026-12-02 12:00'],
  ['in 90 min', '2026-12-02 11:30'],
  ['in 1h 30m', '2026-12-02 11:30'],
  ['in 1 hour and 15 minutes', '2026-12-02 11:15'],
  ['in an hour', '2026-12-02 11:00'],
  ['in half an hour', '2026-12-02 10:30'],
  ['in 3 days', '2026-12-05 10:00'],
  ['in a week', '2026-12-09 10:00'],
  ['in 1m', '2026-12-02 10:01'],

  ['明早七点半', '2026-12-03 07:30'],
  ['今晚9点', '2026-12-02 21:00'],
  ['今晚九点', '2026-12-02 21:00'],
  ['今晚12点', '2026-12-03 00:00'],
  ['晚上12点半', '2026-12-03 00:30'],
  ['半夜12点', '2026-12-03 00:00'],
  ['今天晚上8点一刻', '2026-12-02 20:15'],
  ['后天下午三点', '2026-12-04 15:00'],
  ['大后天下午三点', '2026-12-05 15:00'],
  ['明天上午十点', '2026-12-03 10:00'],
  ['明天中午12点', '2026-12-03 12:00'],
  ['明天中午一点', '2026-12-03 13:00'],
  ['明天凌晨3点', '2026-12-03 03:00'],
  ['明晚十点三刻', '2026-12-03 22:45'],
  ['明天1 点', '2026-12-03 01:00'],
  ['七点半', '2026-12-03 07:30 moved'],
  ['晚上八点', '2026-12-02 20:00'],
  ['下午3:20', '2026-12-02 15:20'],
  ['下午三点二十', '2026-12-02 15:20'],
  ['下午三点零五分', '2026-12-02 15:05'],
  ['十八点三十分', '2026-12-02 18:30'],
  ['二十三点五十九分', '2026-12-02 23:59'],
  ['18點30分', '2026-12-02 18:30'],
  ['18时整', '2026-12-02 18:00'],
  ['晚上8点整', '2026-12-02 20:00'],
  ['晚上8点钟', '2026-12-02 20:00'],
  ['晚上8点左右', '2026-12-02 20:00'],
  ['两小时后', '2026-12-02 12:00'],
  ['两个小时后', '2026-12-02 12:00'],
  ['2小时之后', '2026-12-02 12:00'],
  ['半小时后', '2026-12-02 10:30'],
  ['半个小时以后', '2026-12-02 10:30'],
  ['一个半小时后', '2026-12-02 11:30'],
  ['一小时三十分钟后', '2026-12-02 11:30'],
  ['二十分钟后', '2026-12-02 10:20'],
  ['一刻钟后', '2026-12-02 10:15'],
  ['三天后', '2026-12-05 10:00'],
  ['两周后', '2026-12-16 10:00'],
  ['周五9点', '2026-12-04 09:00'],
  ['星期五上午9点', '2026-12-04 09:00'],
  ['礼拜五9点', '2026-12-04 09:00'],
  ['这周五9点', '2026-12-04 09:00'],
  ['下周一9点', '2026-12-07 09:00'],
  ['下星期天9点', '2026-12-13 09:00'],
  ['周日9点', '2026-12-06 09:00'],
  ['周三9点', '2026-12-09 09:00 moved'],
  ['12月24日18点', '2026-12-24 18:00'],
  ['十二月二十四日十八点', '2026-12-24 18:00'],
  ['12月24号晚上6点', '2026-12-24 18:00'],
  ['1月5日9点', '2027-01-05 09:00 moved'],
  ['2026年12月24日18:00', '2026-12-24 18:00'],
  ['2028年2月29日9点', '2028-02-29 09:00'],
  ['24号9点', '2026-12-24 09:00'],
  ['1号9点', '2027-01-01 09:00 moved'],
  ['１８：３０', '2026-12-02 18:30'],
  ['明天９点', '2026-12-03 09:00'],
  ['明天９：００', '2026-12-03 09:00'],
]

const [hours8, hours9] = ['"hour":8,"minute":0', '"hour":9,"minute":0']
const weekday = '"weekdays":[1,2,3,4,5]'
const series: readonly (readonly [text: string, when: string, rule: string])[] = [
  ['every weekday 8:00', '2026-12-03 08:00', `{${hours8},${weekday}}`],
  ['weekdays 8:00', '2026-12-03 08:00', `{${hours8},${weekday}}`],
  ['every day at 8', '2026-12-03 08:00', `{${hours8}}`],
  ['every day 8:00', '2026-12-03 08:00', `{${hours8}}`],
  ['daily 8am', '2026-12-03 08:00', `{${hours8}}`],
  ['every morning at 8', '2026-12-03 08:00', `{${hours8}}`],
  ['every evening at 8', '2026-12-02 20:00', '{"hour":20,"minute":0}'],
  ['every night at 12', '2026-12-03 00:00', '{"hour":0,"minute":0}'],
  ['every mon,thu 18:30', '2026-12-03 18:30', '{"hour":18,"minute":30,"weekdays":[1,4]}'],
  ['every Monday and Thursday at 18:30', '2026-12-03 18:30', '{"hour":18,"minute":30,"weekdays":[1,4]}'],
  ['every mon-fri 8:00', '2026-12-03 08:00', `{${hours8},${weekday}}`],
  ['every fri to mon 8:00', '2026-12-04 08:00', `{${hours8},"weekdays":[0,1,5,6]}`],
  ['every sunday 9:00', '2026-12-06 09:00', `{${hours9},"weekdays":[0]}`],
  ['every weekend at 9', '2026-12-05 09:00', `{${hours9},"weekdays":[0,6]}`],
  ['every 2h', '2026-12-02 12:00', '{"minutes":120}'],
  ['every 2 hours', '2026-12-02 12:00', '{"minutes":120}'],
  ['every hour', '2026-12-02 11:00', '{"minutes":60}'],
  ['every half hour', '2026-12-02 10:30', '{"minutes":30}'],
  ['every half an hour', '2026-12-02 10:30', '{"minutes":30}'],
  ['every 15 min', '2026-12-02 10:15', '{"minutes":15}'],
  ['every month on the 1st 9:00', '2027-01-01 09:00', `{${hours9},"day":1}`],
  ['every month on the 31st at 9', '2026-12-31 09:00', `{${hours9},"day":31}`],
  ['every month on the last day 9:00', '2026-12-31 09:00', `{${hours9},"day":31}`],

  ['每天8点', '2026-12-03 08:00', `{${hours8}}`],
  ['每天早上八点', '2026-12-03 08:00', `{${hours8}}`],
  ['每天早上八点半', '2026-12-03 08:30', '{"hour":8,"minute":30}'],
  ['每天晚上九点半', '2026-12-02 21:30', '{"hour":21,"minute":30}'],
  ['每晚12点', '2026-12-03 00:00', '{"hour":0,"minute":0}'],
  ['每早7点', '2026-12-03 07:00', '{"hour":7,"minute":0}'],
  ['每晚9点', '2026-12-02 21:00', '{"hour":21,"minute":0}'],
  ['工作日8点', '2026-12-03 08:00', `{${hours8},${weekday}}`],
  ['每个工作日8点', '2026-12-03 08:00', `{${hours8},${weekday}}`],
  ['周末10点', '2026-12-05 10:00', '{"hour":10,"minute":0,"weekdays":[0,6]}'],
  ['每周末10点', '2026-12-05 10:00', '{"hour":10,"minute":0,"weekdays":[0,6]}'],
  ['每周一三五18:30', '2026-12-02 18:30', '{"hour":18,"minute":30,"weekdays":[1,3,5]}'],
  ['每周一、三、五 18:30', '2026-12-02 18:30', '{"hour":18,"minute":30,"weekdays":[1,3,5]}'],
  ['每周一和周四18:30', '2026-12-03 18:30', '{"hour":18,"minute":30,"weekdays":[1,4]}'],
  ['每周一到周五8点', '2026-12-03 08:00', `{${hours8},${weekday}}`],
  ['每周一至五8点', '2026-12-03 08:00', `{${hours8},${weekday}}`],
  ['每周1到5 8点', '2026-12-03 08:00', `{${hours8},${weekday}}`],
  ['每星期天上午9点', '2026-12-06 09:00', `{${hours9},"weekdays":[0]}`],
  ['每个礼拜日九点', '2026-12-06 09:00', `{${hours9},"weekdays":[0]}`],
  ['每周一三点', '2026-12-07 03:00', '{"hour":3,"minute":0,"weekdays":[1]}'],
  ['每周一晚上12点', '2026-12-08 00:00', '{"hour":0,"minute":0,"weekdays":[2]}'],
  ['每小时', '2026-12-02 11:00', '{"minutes":60}'],
  ['每两小时', '2026-12-02 12:00', '{"minutes":120}'],
  ['每两个小时', '2026-12-02 12:00', '{"minutes":120}'],
  ['每隔两小时', '2026-12-02 12:00', '{"minutes":120}'],
  ['每半小时', '2026-12-02 10:30', '{"minutes":30}'],
  ['每半个小时', '2026-12-02 10:30', '{"minutes":30}'],
  ['每一个半小时', '2026-12-02 11:30', '{"minutes":90}'],
  ['每三十分钟', '2026-12-02 10:30', '{"minutes":30}'],
  ['每刻钟', '2026-12-02 10:15', '{"minutes":15}'],
  ['每月1号9点', '2027-01-01 09:00', `{${hours9},"day":1}`],
  ['每个月十五号上午九点', '2026-12-15 09:00', `{${hours9},"day":15}`],
  ['每月31日9点', '2026-12-31 09:00', `{${hours9},"day":31}`],
  ['每月最后一天9点', '2026-12-31 09:00', `{${hours9},"day":31}`],
  ['每天１８：３０', '2026-12-02 18:30', '{"hour":18,"minute":30}'],
]

describe('what is read', () => {
  test.each(once)('%s', (text, when) => {
    expect(meaningOf(`${text} do it`)).toBe(`${when} | do it`)
    expect(meaningOf(`${text} 浇花`)).toBe(`${when} | 浇花`)
    expect(meaningOf(text)).toBe(`${when} | `)
    expect(meaningOf(`  ${text.toUpperCase()}\n/stop, now`)).toBe(`${when} | /stop, now`)
  })
  test.each(series)('%s', (text, when, rule) => {
    expect(meaningOf(`${text} do it`)).toBe(`${when} ${rule} | do it`)
    expect(meaningOf(`${text}，今天的天气`)).toBe(`${when} ${rule} | 今天的天气`)
    expect(meaningOf(text)).toBe(`${when} ${rule} | `)
  })
  test.each(once.filter(([text]) => /[点點后]$|半$/.test(text)))(
    '%s, and the words at once',
    (text, when) => {
      expect(meaningOf(`${text}提醒我浇花`)).toBe(`${when} | 提醒我浇花`)
    },
  )
})

test.each([
  ['8点三十分钟瑜伽', '2026-12-03 08:00 moved | 三十分钟瑜伽'],
  ['8点20个俯卧撑', '2026-12-03 08:00 moved | 20个俯卧撑'],
  ['8点二十提醒我', '2026-12-03 08:20 moved | 提醒我'],
  ['8点前往机场', '2026-12-03 08:00 moved | 前往机场'],
  ['晚上8点一起吃饭', '2026-12-02 20:00 | 一起吃饭'],
  ['每天8点，一句英语', '2026-12-03 08:00 {"hour":8,"minute":0} | 一句英语'],
  ["18:00 today's news", "2026-12-02 18:00 | today's news"],
  ['tomorrow 8:00 5 eggs', '2026-12-03 08:00 | 5 eggs'],
  ['fri 9am tomorrow is a holiday', '2026-12-04 09:00 | tomorrow is a holiday'],
  ['18:00 /new conversation', '2026-12-02 18:00 | /new conversation'],
  ['18:00: - milk\n- bread', '2026-12-02 18:00 | milk\n- bread'],
  ['18:00 \u202eevil\u202c', '2026-12-02 18:00 | \u202eevil\u202c'],
])('%s: where the words begin', (text, meaning) => {
  expect(meaningOf(text)).toBe(meaning)
})

describe('what is not certain is not guessed', () => {
  test.each([
    ['', 'form'],
    ['do it', 'form'],
    ['/stop', 'form'],
    ['tomorrow do it', 'form'],
    ['明天浇花', 'form'],
    ['每天浇花', 'form'],
    ['every day do it', 'form'],
    ['every week do it', 'form'],
    ['every 2 days 9:00 do it', 'form'],
    ['every tomorrow 9:00 do it', 'form'],
    ['soon do it', 'form'],
    ['tomorrow midnight do it', 'form'],
    ['2/3 9:00 do it', 'form'],
    ['3.12. 9:00 do it', 'form'],
    ['12-24 18:00 do it', 'form'],
    ['25:00 do it', 'form'],
    ['24:30 do it', 'form'],
    ['7:60 do it', 'form'],
    ['7:30:15 do it', 'form'],
    ['7.30 do it', 'form'],
    ['9-10am do it', 'form'],
    ['9:00-10:00 do it', 'form'],
    ['9:00 to 10:00 do it', 'form'],
    ['9:00 and 20:00 do it', 'form'],
    ['every day 9:00 and 8pm do it', 'form'],
    ['8 hours do it', 'form'],
    ['8 8 do it', 'form'],
    ['20浇花', 'form'],
    ['14 in the morning do it', 'form'],
    ['in 2 do it', 'form'],
    ['in 0 min do it', 'form'],
    ['in 1h30 do it', 'form'],
    ['in 2h 9:00 do it', 'form'],
    ['in 9999 weeks do it', 'form'],
    ['2040-01-01 9:00 do it', 'form'],
    ['275761-01-01 9:00 do it', 'form'],
    ['0000-01-01 9:00 do it', 'past'],
    ['8点到9点开会', 'form'],
    ['8点和20点吃药', 'form'],
    ['每天8点、12点、18点吃药', 'form'],
    ['每天早晚8点', 'form'],
    ['差五分8点浇花', 'form'],
    ['8点前浇花', 'form'],
    ['8点之前浇花', 'form'],
    ['8点以后浇花', 'form'],
    ['8点差五分浇花', 'form'],
    ['上午12点浇花', 'form'],
    ['凌晨12点浇花', 'form'],
    ['下下周一9点浇花', 'form'],
    ['上周一9点浇花', 'form'],
    ['每周三点浇花', 'form'],
    ['每周二十点浇花', 'form'],
    ['每两天9点浇花', 'form'],
    ['三天后9点浇花', 'form'],
    ['两小时浇花', 'form'],
    ['每月31号晚上12点浇花', 'form'],
    ['today 9:00 do it', 'past'],
    ['今早9点浇花', 'past'],
    ['这周一9点浇花', 'past'],
    ['2026-12-02 10:00 do it', 'past'],
    ['2026-11-30 10:00 do it', 'past'],
    ['2月30日9点浇花', 'absent'],
    ['2月29日9点浇花', 'absent'],
    ['february 30 9:00 do it', 'absent'],
    ['2026-02-30 9:00 do it', 'absent'],
    ['2026-13-01 9:00 do it', 'absent'],
    ['13月1日9点浇花', 'absent'],
    ['32号9点浇花', 'absent'],
    ['the 0th 9:00 do it', 'absent'],
    ['every month on the 32nd 9:00 do it', 'absent'],
    ['每月0号9点浇花', 'absent'],
    ['every 14 min do it', 'often'],
    ['every minute do it', 'often'],
    ['每5分钟浇花', 'often'],
    ['每0小时浇花', 'often'],
    ['next friday 9:00 do it', 'unsure'],
    ['9:00 tomorrow do it', 'unsure'],
    ['18:00 friday do it', 'unsure'],
    ['8点明天的天气', 'unsure'],
    ['tonight 1 do it', 'unsure'],
    ['今晚1点浇花', 'unsure'],
    ['每天夜里两点浇花', 'unsure'],
  ])('%s', (text, why) => {
    expect(meaningOf(text)).toBe(why)
  })

  test('what it may mean is told', () => {
    const read = readTime('next friday 9:00 do it', { now, zone })
    expect(read).toMatchObject({ why: 'unsure', as: { due: momentOf(zone, Date.UTC(2026, 11, 11, 9)) } })
    for (const text of ['晚上1点提醒我睡觉', '半夜一点睡觉', '每天晚上1点睡觉', '1 at night sleep']) {
      const night = readTime(text, { now, zone })
      expect(night).toMatchObject({ why: 'unsure', as: { due: momentOf(zone, Date.UTC(2026, 11, 3, 1)) } })
    }
  })
})

test('hostile texts are read in a moment, as nothing', () => {
  const hostile = [
    '9'.repeat(10_000),
    `${'9'.repeat(10_000)}:00`,
    '1:'.repeat(5000),
    'every '.repeat(2000),
    `every mon${',mon'.repeat(3000)}`,
    `每周${'一'.repeat(10_000)}`,
    `${' '.repeat(10_000)}8:00`,
    '十'.repeat(10_000),
    `in ${'1h '.repeat(3000)}`,
    'at '.repeat(5000),
    '\u202e7:30 do it',
    '7\u20663:30 do it',
    '7：\u200b30',
    '\ud800 8:00',
    '\u0000 8:00',
    '٨:٠٠ do it',
    'İ'.repeat(1000),
    '{"at":1}',
    "'; DROP TABLE agent_time; --",
  ]
  for (const text of hostile)
    expect([text.slice(0, 20), 'why' in readTime(text, { now, zone })]).toEqual([text.slice(0, 20), true])
})

test('a rule that is written is read as the same rule, in both languages', () => {
  const rules: TimeRule[] = [
    { at: now + 3_600_000 },
    { minutes: 15 },
    { minutes: 90 },
    { minutes: 1440 },
    { hour: 0, minute: 0 },
    { hour: 23, minute: 59, weekdays: [0, 1, 6] },
    { hour: 9, minute: 5, weekdays: [0] },
    { hour: 7, minute: 30, weekdays: [1, 2, 3, 4, 5] },
    { hour: 7, minute: 30, weekdays: [0, 6] },
    { hour: 12, minute: 0, day: 1 },
    { hour: 12, minute: 0, day: 31 },
  ]
  for (const rule of rules)
    for (const isChinese of [false, true])
      expect(readTime(formatRule(rule, zone, isChinese), { now, zone })).toMatchObject({ rule, rest: '' })
})

test.each([
  ['every mon,tue,wed,thu,fri 8:00', 'every weekday 8:00'],
  ['每周一二三四五8点', 'every weekday 8:00'],
  ['every sun,sat 8:00', 'every weekend 8:00'],
  ['every mon-sun 8:00', 'every day 8:00'],
  ['每周一到周日8点', 'every day 8:00'],
])('%s is written as %s', (text, other) => {
  for (const isChinese of [false, true]) {
    const [written, expected] = [text, other].map(one => {
      const read = readTime(one, { now, zone })
      return 'why' in read ? read : formatRule(read.rule, zone, isChinese)
    })
    expect(written).toBe(expected as string)
  }
})

test('a span is counted from the second in which it was said', () => {
  for (const [text, minutes] of [
    ['in 1m', 1],
    ['两小时后', 120],
    ['in 3 days', 3 * 1440],
  ] as const)
    expect(readTime(text, { now: now + 30_000, zone })).toMatchObject({
      due: now + 30_000 + minutes * 60_000,
    })
})
