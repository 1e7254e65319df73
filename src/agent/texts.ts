/** What the process of an agent itself says to people on WeChat, in English and Chinese. */

import { isChineseFor } from '../model/language.ts'
import { chineseFailures, englishFailures } from './failure-text.ts'
import { chineseQuestions, englishQuestions } from './question-text.ts'
import { chineseTimes, englishTimes } from './time-text.ts'

const english = {
  question: englishQuestions,
  failure: englishFailures,
  time: englishTimes,
  draft: {
    opening: (who: string) => `An answer for ${who} waits for you. They wrote, and it says:`,
    choices: (code: string) => [
      `${code} 1 = send it`,
      `${code} 2 = do not`,
      'Only a line with this code counts.',
    ],
    send: (who: string) => `Approved: ${who} gets it.`,
    discard: (who: string) => `${who} does not get it.`,
    howTo: (code: string) => `Nothing was done. Send ${code} 1 for yes, ${code} 2 for no.`,
  },
  stopped: (waiting: number) =>
    waiting > 0 ? `Stopped. What waited behind it (${waiting}) is not done either.` : 'Stopped.',
  nothingToStop: 'Nothing is running.',
  begun: 'A new conversation begins with your next message.',
  steer: {
    notYours: 'Only the person who decides for this agent may change that.',
    none: 'This agent offers no such choice here.',
    noSessions: 'There is no earlier conversation.',
    noSuch: (word: string) => `None of the choices is called that. /${word} lists them.`,
    item: (nth: number, name: string, isCurrent: boolean, more: string) =>
      `${nth}. ${name}${isCurrent ? ' (current)' : ''}${more && ` – ${more}`}`,
    age: (minutes: number) => ageOf(minutes, ' min', ' h', ' d'),
    left: (count: number) => `${count} more: send a part of the name.`,
    howTo: (command: string) => `Send ${command} and a number or a name.`,
    chosen: (name: string) => `From your next message on: ${name}`,
    asksNot: 'Careful: as far as the agent tells, it does not ask in this mode before it acts.',
    lost: 'The agent cannot go on with that conversation here.',
    commands: 'Commands of the agent:',
    untold: 'The agent did not tell its own commands.',
  },
  noMore: 'Nothing more is waiting.',
  idle: 'Waiting for your message.',
  working: (minutes: number, waiting: number) =>
    `Working for ${minutes} min${waiting > 0 ? `; ${waiting} more waiting` : ''}.`,
  help: {
    conversation:
      'Conversation:\n/stop ends the current answer\n/new begins a new conversation\n/sessions lists earlier ones\n/resume 3 goes on with one\n/more sends the rest of a long answer\n/status tells what runs',
    agent: 'Agent:\n/model shows and changes its model\n/mode its mode\n/cd its folder',
    agents: '/agents lists your agents\n/use NAME chooses one\n@NAME before a message asks one once',
    times:
      'Times, for the owner:\n/at tomorrow 7:30 Water the plants\n/every weekday 8:00 News\n/in 2h Look at the oven\n/times lists them\n/cancel 2 ends one',
  },
  ready: (minutes: number) =>
    `The answer comes in about ${minutes} min: only so many messages may be sent at a time.`,
  waitsFor: (minutes: number, waiting: number) =>
    `An answer comes in about ${minutes} min${waiting > 0 ? `; ${waiting} more waiting` : ''}.`,
  moreIn: (minutes: number) => `The rest can come in about ${minutes} min. Reply /more then.`,
  nextIn: (minutes: number) => `(The next message can come in about ${minutes} min.)`,
  starting: () => 'The agent is starting. The first time that can take some minutes.',
  slow: (minutes: number) => `Still working on it (${minutes} min so far).`,
  behind: (minutes: number) =>
    `Got it. It comes after your message before, which is still being worked on${minutes > 0 ? ` (${minutes} min so far)` : ''}.`,
  asking: () =>
    'Got it. A question of the agent is still open: answer that first, where it was asked or in the panel. Your message comes after it.',
  skipped: (minutes: number) =>
    `What you wrote more than ${minutes} min ago, while I was away, gets no answer. Send it again if you still need it.`,
  failed: 'That did not work. Please try again later.',
  tooLong: (minutes: number) => `Stopped: it took more than ${minutes} min.`,
  dayIsOver: 'The limit of turns within 24 hours is reached. Please try again later.',
  interrupted:
    'I was restarted while I worked on your last message, and did not do it again. Send it again if you still need it.',
  silent: 'Done. There was no answer in words.',
  leftOut: (count: number) => `(Pictures or files of the answer that could not be sent: ${count}.)`,
  early: {
    length: '(The answer ends here: it is as long as the model may write.)',
    refused: '(The answer ends here: the model, or a filter, stopped it.)',
    steps: '(The agent stopped here: it took as many steps as it may.)',
  },
  more: (count: number, agent?: string) =>
    `(${count} more, reply ${agent === undefined ? '' : `@${agent} `}/more)`,
  agents: {
    line: (name: string, about: string, isChosen: boolean, isAway: boolean) =>
      `${isChosen ? '→ ' : ''}${name}: ${about}${isAway ? ' (does not run)' : ''}`,
    howTo: '/use NAME chooses who gets your messages; @NAME in front of one asks once.',
    chosen: (name: string, isAway: boolean) =>
      `${name} gets your messages now.${isAway ? ' It does not run, and answers when it does.' : ''}`,
    unsure: (name: string, word: string) => `Did you mean ${name}? Then send: /${word} ${name}`,
    unknown: (word: string) => `No agent is called ${word}.`,
    away: (name: string, other: string | undefined) =>
      `${name} does not run. It answers when it runs again${other === undefined ? '.' : `; /use ${other} takes another one.`}`,
    undone: (name: string, other: string) =>
      `Not done: ${name} does not run. Send this again when it runs; /use ${other} takes another one.`,
  },
  left: (count: number) =>
    `(${count > 0 ? '1 more answer is' : 'No more answers are'} possible; write anything for more.)`,
  noFile: (name: string) => `The file ${name} could not be sent.`,
  ofUser: (who: string, what: string) => `${who}: ${what}`,
  ofOther: (what: string) => `Somebody else got no answer. ${what}`,
  // Without name and id: what is erased about that person must not stay in the chat of the owner.
  stranger:
    'Somebody who may not talk with the agent wrote to it, and got no answer. svc agent turns shows who. To allow it, start the agent with --allow.',
}

const chinese: typeof english = {
  question: chineseQuestions,
  failure: chineseFailures,
  time: chineseTimes,
  draft: {
    opening: who => `给 ${who} 的回答等你批准。对方的消息和回答是：`,
    choices: code => [`${code} 1 = 发送`, `${code} 2 = 不发送`, '只有带此代码的回复有效。'],
    send: who => `已批准，将发送给 ${who}。`,
    discard: who => `不会发送给 ${who}。`,
    howTo: code => `未做任何操作。回复 ${code} 1 表示是，${code} 2 表示否。`,
  },
  stopped: waiting => (waiting > 0 ? `已停止，排在后面的 ${waiting} 条也不再处理。` : '已停止。'),
  nothingToStop: '当前没有正在进行的任务。',
  begun: '从你的下一条消息开始新的对话。',
  steer: {
    notYours: '只有管理这个智能体的人可以更改。',
    none: '这个智能体在此不提供这种选择。',
    noSessions: '没有之前的对话。',
    noSuch: word => `没有这个选项，/${word} 可查看列表。`,
    item: (nth, name, isCurrent, more) =>
      `${nth}. ${name}${isCurrent ? '（当前）' : ''}${more && `，${more}`}`,
    age: minutes => ageOf(minutes, ' 分钟前', ' 小时前', ' 天前'),
    left: count => `还有 ${count} 个，请发送名称的一部分。`,
    howTo: command => `回复 ${command} 加编号或名称。`,
    chosen: name => `从下一条消息起：${name}`,
    asksNot: '注意：据智能体说明，在此模式下它执行前不会询问。',
    lost: '智能体在此无法继续那个对话。',
    commands: '智能体自己的指令：',
    untold: '智能体没有告知它自己的指令。',
  },
  noMore: '没有更多内容了。',
  idle: '等待你的消息。',
  working: (minutes, waiting) => `已处理 ${minutes} 分钟${waiting > 0 ? `，还有 ${waiting} 条在等待` : ''}。`,
  help: {
    conversation:
      '对话：\n停止（/stop）：结束当前回答\n新对话（/new）：开始新的对话\n历史对话（/sessions）：列出之前的对话\n继续对话 3（/resume 3）：继续其中一个\n更多（/more）：发送长回答的剩余部分\n状态（/status）：查看进度',
    agent:
      '智能体：\n切换模型（/model）：查看并更改模型\n切换模式（/mode）：查看并更改模式\n切换目录（/cd）：查看并更改目录',
    agents: '智能体列表（/agents）：列出你的智能体\n换用 名称（/use）：选择一个\n@名称 加消息：只问它一次',
    times:
      '定时，限账号主人：\n定时 明早七点半 浇花（/at）\n定时 每个工作日8点 新闻\n定时 两小时后 看烤箱\n定时列表（/times）：列出\n取消定时 2（/cancel 2）：取消一个',
  },
  ready: minutes => `回答大约 ${minutes} 分钟后发送：一段时间内可发的消息条数有限。`,
  waitsFor: (minutes, waiting) =>
    `回答大约 ${minutes} 分钟后发送${waiting > 0 ? `，还有 ${waiting} 条在等待` : ''}。`,
  moreIn: minutes => `剩余部分大约 ${minutes} 分钟后可以发送，到时请回复「更多」。`,
  nextIn: minutes => `（下一条消息大约 ${minutes} 分钟后才能发送。）`,
  starting: () => '智能体正在启动，首次启动可能需要几分钟。',
  slow: minutes => `还在处理（已用 ${minutes} 分钟）。`,
  behind: minutes =>
    `已收到，会在上一条消息之后处理，那一条还在进行${minutes > 0 ? `（已用 ${minutes} 分钟）` : ''}。`,
  asking: () => '已收到。智能体的提问还在等你答复，请先在提问处或面板中答复，这条消息随后处理。',
  skipped: minutes => `你在我离线时发的、超过 ${minutes} 分钟的消息不再回答。如果仍然需要，请再发一次。`,
  failed: '没有成功，请稍后再试。',
  tooLong: minutes => `已停止：超过 ${minutes} 分钟。`,
  dayIsOver: '24 小时内的次数已用完，请稍后再试。',
  interrupted: '处理你上一条消息时服务重启了，任务没有重做。如果仍然需要，请再发一次。',
  silent: '已完成，没有文字回答。',
  leftOut: count => `（回答中有 ${count} 个图片或文件未能发送。）`,
  early: {
    length: '（回答到此为止：已达到模型的长度上限。）',
    refused: '（回答到此为止：被模型或过滤器中止。）',
    steps: '（到此为止：智能体已达到步数上限。）',
  },
  more: (count, agent) => `（还有 ${count} 条，回复「${agent === undefined ? '更多' : `@${agent} 更多`}」）`,
  agents: {
    line: (name, about, isChosen, isAway) =>
      `${isChosen ? '→ ' : ''}${name}：${about}${isAway ? '（未运行）' : ''}`,
    howTo: '/use 名称 选择由谁接收你的消息；在消息前加 @名称 只问它一次。',
    chosen: (name, isAway) => `现在由 ${name} 接收你的消息。${isAway ? '它目前未运行，运行后会回答。' : ''}`,
    unsure: (name, word) => `是指 ${name} 吗？请发送：/${word} ${name}`,
    unknown: word => `没有叫 ${word} 的智能体。`,
    away: (name, other) =>
      `${name} 未运行，运行后会回答。${other === undefined ? '' : `要换一个，请发送：/use ${other}`}`,
    undone: (name, other) =>
      `没有执行：${name} 未运行。等它运行后请再发一次。要换一个，请发送：/use ${other}`,
  },
  left: count => `（${count > 0 ? '还可以再回答 1 条' : '不能再回答了'}，随便发一条消息就能继续。）`,
  noFile: name => `文件 ${name} 没能发送。`,
  ofUser: (who, what) => `${who}：${what}`,
  ofOther: what => `有人没有得到回答。${what}`,
  stranger:
    '有未获允许的人给智能体发了消息，没有得到回答。svc agent turns 可查看是谁。要允许此人对话，请用 --allow 启动。',
}

export type Texts = typeof english

function ageOf(minutes: number, ...[min, hours, days]: readonly [string, string, string]): string {
  if (minutes < 60) return `${Math.max(0, minutes)}${min}`
  return minutes < 48 * 60 ? `${Math.round(minutes / 60)}${hours}` : `${Math.round(minutes / 1440)}${days}`
}

/** Returns the texts for a person. @param wrote what that wrote, the newest first */
export const textsFor = (...wrote: string[]): Texts => (isChineseFor(wrote) ? chinese : english)
