/**
 * Bodies of chat programs, forges and services that push, with values of our own: what a person reads of each, and what is no
 * word for people. Their structure is that of the programs' own documents and sources.
 */
import { expect, test } from 'bun:test'
import { parseLossless } from '../../src/platform/lossless.ts'
import { readBodyForm } from '../../src/server/notify/form.ts'
import { codeOf } from '../support/failure.ts'
import { type Row, read } from './notify-rows.ts'

const rows: Record<string, Row> = {
  'Uptime Kuma': {
    body: {
      heartbeat: {
        monitorID: 10,
        status: 0,
        time: '2026-01-05 03:12:00.120',
        msg: 'connect ECONNREFUSED 10.0.0.5:443',
        important: true,
        duration: 61,
        retries: 3,
        timezone: 'Asia/Shanghai',
        timezoneOffset: '+08:00',
        localDateTime: '2026-01-05 11:12:00',
      },
      monitor: {
        id: 10,
        name: 'Shop',
        description: null,
        pathName: 'Web / Shop',
        parent: 2,
        childrenIDs: [],
        url: 'https://shop.example',
        method: 'GET',
        hostname: null,
        port: null,
        maxretries: 3,
        weight: 2000,
        active: true,
        forceInactive: false,
        type: 'http',
        timeout: 48,
        interval: 60,
        retryInterval: 60,
        resendInterval: 0,
        keyword: null,
        invertKeyword: false,
        expiryNotification: false,
        ignoreTls: false,
        upsideDown: false,
        packetSize: 56,
        maxredirects: 10,
        accepted_statuscodes: ['200-299'],
        dns_resolve_type: 'A',
        dns_resolve_server: '1.1.1.1',
        docker_container: '',
        proxyId: null,
        notificationIDList: { 1: true },
        tags: [],
        maintenance: false,
        mqttTopic: '',
        kafkaProducerSsl: false,
        jsonPath: '$',
        conditions: [],
        basic_auth_user: null,
        basic_auth_pass: null,
        headers: null,
        body: null,
        grpcBody: null,
        grpcMetadata: null,
      },
      msg: '[Shop] [🔴 Down] connect ECONNREFUSED 10.0.0.5:443',
    },
    has: ['[🔴 Down] connect ECONNREFUSED 10.0.0.5:443'],
    hasNot: ['monitor', 'other', 'interval', '2026', '[Shop]'],
    notice: { title: 'Shop', priority: 'high', click: 'https://shop.example', resolved: false },
  },
  'Slack: attachments beside a text': {
    body: {
      text: '2 alerts',
      attachments: [
        {
          color: 'danger',
          pretext: 'From <https://mon.example/a|Monitor>',
          author_name: 'mon',
          title: 'Disk &lt;sda&gt; full',
          title_link: 'https://mon.example/1',
          text: '*95 %* used on `db1`',
          fields: [{ title: 'Host', value: 'db1', short: true }],
          footer: 'Monitor',
          ts: 123,
          fallback: 'x',
          actions: [{ type: 'button', text: 'Ack', url: 'https://mon.example/ack' }],
        },
        { fallback: 'CPU high', color: 'warning' },
      ],
    },
    has: [
      '2 alerts',
      'From Monitor (https://mon.example/a)',
      'Disk <sda> full',
      'https://mon.example/1',
      '95 % used on db1',
      'Host: db1',
      'https://mon.example/ack',
      'CPU high',
    ],
    hasNot: ['danger', '&lt;', '*', '|'],
  },
  'Slack: blocks alone': {
    body: {
      channel: '#ops',
      blocks: [
        { type: 'header', text: { type: 'plain_text', text: 'Deploy failed', emoji: true } },
        {
          type: 'section',
          text: { type: 'mrkdwn', text: 'Service *shop* by <@U012>' },
          accessory: {
            type: 'button',
            text: { type: 'plain_text', text: 'Open' },
            value: 'v1',
            url: 'https://ci.example/9',
            action_id: 'a',
          },
        },
        { type: 'section', fields: [{ type: 'mrkdwn', text: '*Env:*\nprod' }] },
        { type: 'divider' },
        {
          type: 'rich_text',
          elements: [
            {
              type: 'rich_text_section',
              elements: [
                { type: 'text', text: 'See ' },
                { type: 'link', url: 'https://x.example', text: 'log' },
                { type: 'text', text: ' now', style: { bold: true } },
              ],
            },
          ],
        },
        {
          type: 'context',
          elements: [
            { type: 'image', image_url: 'https://i.example/a.png', alt_text: 'a' },
            { type: 'mrkdwn', text: 'at 10:00' },
          ],
        },
      ],
    },
    has: [
      'Deploy failed',
      'Service shop by @U012',
      'https://ci.example/9',
      'Env:\nprod',
      'See log (https://x.example) now',
      'at 10:00',
    ],
    hasNot: ['mrkdwn', 'divider', 'v1'],
  },
  Discord: {
    body: {
      username: 'bot',
      avatar_url: 'https://i.example/b.png',
      content: 'Hi **all**',
      embeds: [
        {
          title: 'Sonarr',
          description: '[S01E02](https://tv.example) grabbed',
          url: 'https://tv.example/1',
          color: 65280,
          fields: [{ name: 'Quality', value: '1080p', inline: true }],
          footer: { text: 'v4', icon_url: 'https://i.example' },
          thumbnail: { url: 'https://i.example/t.png' },
          timestamp: '2026-01-01T00:00:00Z',
        },
      ],
    },
    has: ['Hi all', 'Sonarr', 'S01E02 (https://tv.example) grabbed', 'Quality: 1080p'],
    hasNot: ['65280', 't.png'],
  },
  'Teams: a message card': {
    body: {
      '@type': 'MessageCard',
      '@context': 'http://schema.org/extensions',
      themeColor: '0076D7',
      summary: 'Build failed',
      title: 'Build 42',
      text: 'The build **failed**',
      sections: [
        {
          activityTitle: 'Anna pushed',
          activitySubtitle: 'main',
          activityImage: 'https://i.example/a.png',
          facts: [{ name: 'Status', value: 'Failed' }],
          markdown: true,
        },
      ],
      potentialAction: [
        { '@type': 'OpenUri', name: 'View', targets: [{ os: 'default', uri: 'https://ci.example/42' }] },
      ],
    },
    has: ['The build failed', 'Anna pushed', 'Status: Failed', 'https://ci.example/42'],
    hasNot: ['0076D7', 'schema.org'],
    notice: { title: 'Build 42' },
  },
  'Teams: an adaptive card': {
    body: {
      type: 'message',
      attachments: [
        {
          contentType: 'application/vnd.microsoft.card.adaptive',
          contentUrl: null,
          content: {
            $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
            type: 'AdaptiveCard',
            version: '1.4',
            body: [
              { type: 'TextBlock', text: 'DB is down', weight: 'bolder' },
              { type: 'FactSet', facts: [{ title: 'Host', value: 'db1' }] },
              {
                type: 'ColumnSet',
                columns: [
                  { type: 'Column', width: 'auto', items: [{ type: 'TextBlock', text: 'since 5 min' }] },
                ],
              },
            ],
            actions: [{ type: 'Action.OpenUrl', title: 'Open', url: 'https://db.example' }],
          },
        },
      ],
    },
    has: ['DB is down', 'Host: db1', 'since 5 min', 'https://db.example'],
    hasNot: ['bolder', 'schemas'],
  },
  'Google Chat: cards': {
    body: {
      cardsV2: [
        {
          cardId: 'x',
          card: {
            header: {
              title: 'Alert',
              subtitle: 'prod',
              imageUrl: 'https://i.example/a.png',
              imageType: 'CIRCLE',
            },
            sections: [
              {
                header: 'Details',
                collapsible: true,
                widgets: [
                  {
                    decoratedText: { topLabel: 'Host', text: '<b>db1</b>', startIcon: { knownIcon: 'STAR' } },
                  },
                  { textParagraph: { text: 'Load is <font color="#f00">9</font><br>now' } },
                  {
                    buttonList: {
                      buttons: [{ text: 'Open', onClick: { openLink: { url: 'https://g.example' } } }],
                    },
                  },
                ],
              },
            ],
          },
        },
      ],
    },
    has: ['Alert', 'Details', 'Host: db1', 'Load is 9\nnow', 'https://g.example'],
    hasNot: ['<b>', 'CIRCLE', 'STAR'],
  },
  'Google Chat: a text': {
    body: { text: '<users/all> *Disk* full on <https://h.example|db1>' },
    has: ['Disk full on db1 (https://h.example)'],
    hasNot: ['|'],
  },
  DingTalk: {
    body: {
      msgtype: 'markdown',
      markdown: { title: '告警', text: '#### 磁盘满\n> db1 **95%**\n' },
      at: { atMobiles: ['1'], isAtAll: false },
    },
    has: ['告警', '磁盘满', 'db1 95%'],
    hasNot: ['####', 'atMobiles'],
  },
  'Feishu: a post': {
    body: {
      msg_type: 'post',
      content: {
        post: {
          zh_cn: {
            title: '部署',
            content: [
              [
                { tag: 'text', text: '失败: ' },
                { tag: 'a', text: '查看', href: 'https://f.example' },
              ],
              [{ tag: 'text', text: 'by Anna' }],
            ],
          },
        },
      },
    },
    has: ['部署', '失败: 查看 (https://f.example)', 'by Anna'],
    hasNot: ['zh_cn'],
  },
  'Feishu: a card': {
    body: {
      msg_type: 'interactive',
      card: {
        config: { wide_screen_mode: true },
        header: { title: { tag: 'plain_text', content: '告警' }, template: 'red' },
        elements: [
          { tag: 'div', text: { tag: 'lark_md', content: '**主机** db1' } },
          {
            tag: 'action',
            actions: [
              {
                tag: 'button',
                text: { tag: 'plain_text', content: '打开' },
                url: 'https://f.example',
                type: 'primary',
              },
            ],
          },
        ],
      },
    },
    has: ['告警', '主机 db1', 'https://f.example'],
    hasNot: ['wide_screen', 'lark_md'],
  },
  WeCom: {
    body: { msgtype: 'text', text: { content: '磁盘满', mentioned_list: ['@all'] } },
    has: ['磁盘满'],
    hasNot: ['msgtype'],
  },
  'Sentry: the plugin': {
    body: {
      project: 'shop',
      project_name: 'Shop',
      project_slug: 'shop',
      logger: null,
      level: 'error',
      culprit: 'pay in checkout',
      message: 'TypeError: x is undefined',
      url: 'https://sentry.example/issues/7/',
      triggering_rules: ['All'],
      event: {
        event_id: 'a',
        title: 'TypeError: x is undefined',
        tags: [
          ['os', 'Linux'],
          ['env', 'prod'],
        ],
        exception: {
          values: Array.from({ length: 20 }, (_, n) => ({
            type: 'E',
            value: `v${n}`,
            stacktrace: { frames: [{ filename: 'a.js', lineno: n, function: 'f' }] },
          })),
        },
      },
    },
    has: [
      'TypeError: x is undefined',
      'level: error',
      'project_name: Shop',
      'culprit: pay in checkout',
      'other fields',
    ],
    hasNot: ['frames'],
    notice: { priority: 'high', click: 'https://sentry.example/issues/7/' },
  },
  'Sentry: the platform': {
    body: {
      action: 'triggered',
      installation: { uuid: 'x' },
      data: {
        event: {
          event_id: 'e',
          level: 'error',
          culprit: 'pay',
          title: 'TypeError: y',
          web_url: 'https://sentry.example/i/8/',
          url: 'https://sentry.example/api/0/x/',
          project: 3,
          message: '',
          platform: 'js',
        },
        triggered_rule: 'Prod errors',
      },
      actor: { type: 'application', id: 'sentry', name: 'Sentry' },
    },
    has: ['TypeError: y', 'level: error', 'https://sentry.example/i/8/', 'Prod errors'],
  },
  'GitLab: a pipeline': {
    body: {
      object_kind: 'pipeline',
      object_attributes: {
        id: 31,
        iid: 3,
        ref: 'main',
        tag: false,
        status: 'failed',
        detailed_status: 'failed',
        stages: ['build', 'test'],
        duration: 63,
        url: 'https://git.example/p/-/pipelines/31',
      },
      user: { id: 1, name: 'Anna', username: 'anna' },
      project: {
        id: 1,
        name: 'Shop',
        web_url: 'https://git.example/g/p',
        path_with_namespace: 'g/p',
        git_ssh_url: 'git@x',
      },
      commit: { id: 'b', message: 'Fix', url: 'https://git.example/g/p/commit/b', author: { name: 'Anna' } },
      builds: [
        { id: 1, stage: 'test', name: 'unit', status: 'failed' },
        { id: 2, stage: 'build', name: 'make', status: 'success' },
      ],
    },
    headers: { 'x-gitlab-event': 'Pipeline Hook' },
    has: ['pipeline #3', 'on main', 'failed: unit'],
    hasNot: ['detailed_status', 'git_ssh_url'],
    notice: { title: 'g/p', priority: 'high', click: 'https://git.example/p/-/pipelines/31' },
  },
  'GitLab: a push': {
    body: {
      object_kind: 'push',
      before: '95790b',
      after: 'da1560',
      ref: 'refs/heads/main',
      user_name: 'Anna',
      project: { web_url: 'https://git.example/g/p', path_with_namespace: 'g/p' },
      commits: [{ message: 'Fix the door' }],
      total_commits_count: 40,
    },
    headers: { 'x-gitlab-event': 'Push Hook' },
    has: ['Anna pushed 40 commits to main', '- Fix the door', '39 more'],
    notice: { click: 'https://git.example/g/p/-/compare/95790b...da1560' },
  },
  'GitLab: a merge request': {
    body: {
      object_kind: 'merge_request',
      user: { name: 'Anna' },
      project: { path_with_namespace: 'g/p', web_url: 'https://git.example/g/p' },
      object_attributes: {
        iid: 5,
        title: 'Paint',
        action: 'approved',
        state: 'opened',
        url: 'https://git.example/g/p/-/merge_requests/5',
      },
    },
    has: ['Anna approved merge request #5: Paint'],
  },
  'GitLab: a comment': {
    body: {
      object_kind: 'note',
      user: { name: 'Anna' },
      project: { path_with_namespace: 'g/p' },
      object_attributes: { note: 'Looks good', noteable_type: 'MergeRequest', url: 'https://git.example/n' },
      merge_request: { iid: 5, title: 'Paint' },
    },
    has: ['Anna commented on merge request #5: Paint', 'Looks good'],
  },
  'GitLab: a job': {
    body: {
      object_kind: 'build',
      ref: 'main',
      build_id: 9,
      build_name: 'unit',
      build_stage: 'test',
      build_status: 'failed',
      build_failure_reason: 'script_failure',
      project_name: 'G / P',
      user: { name: 'Anna' },
      project: { path_with_namespace: 'g/p', web_url: 'https://git.example/g/p' },
    },
    has: ['job', 'unit on main', 'failed', 'script_failure'],
    notice: { click: 'https://git.example/g/p/-/jobs/9' },
  },
  'GitLab: a release': {
    body: {
      object_kind: 'release',
      action: 'create',
      name: 'v1',
      tag: 'v1.0',
      url: 'https://git.example/r',
      description: 'notes',
      project: { path_with_namespace: 'g/p' },
    },
    has: ['created release: v1'],
  },
  'GitLab: a deployment': {
    body: {
      object_kind: 'deployment',
      status: 'failed',
      environment: 'prod',
      deployable_url: 'https://git.example/d',
      user: { name: 'Anna' },
      short_sha: 'abc',
      project: { path_with_namespace: 'g/p' },
    },
    has: ['deployment', 'failed', 'environment: prod'],
  },
  'GitHub: approved': {
    headers: { 'x-github-event': 'pull_request_review' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        action: 'submitted',
        review: { state: 'approved', body: 'ok', html_url: 'https://gh.example/r' },
        pull_request: { number: 7, title: 'Door' },
      },
    },
    has: ['alice approved pull request #7: Door', 'ok'],
  },
  'GitHub: changes requested': {
    headers: { 'x-github-event': 'pull_request_review' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        action: 'submitted',
        review: { state: 'changes_requested', body: 'no', html_url: 'https://gh.example/r' },
        pull_request: { number: 7, title: 'Door' },
      },
    },
    has: ['alice requested changes on pull request #7: Door', 'no'],
  },
  'GitHub: Gitea: rejected': {
    headers: { 'x-github-event': 'pull_request_rejected' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        action: 'reviewed',
        review: { type: 'pull_request_review_rejected', content: 'no' },
        pull_request: { number: 7, title: 'Door', html_url: 'https://gitea.example/7' },
      },
    },
    has: ['alice requested changes on pull request #7: Door', 'no'],
  },
  'GitHub: Gitea: a push': {
    headers: { 'x-github-event': 'push' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        ref: 'refs/heads/main',
        compare_url: 'https://gitea.example/c',
        commits: [1, 2, 3, 4, 5].map(n => ({ message: `c${n}` })),
        total_commits: 40,
        pusher: { login: 'bob', full_name: 'Bob' },
      },
    },
    has: ['bob pushed 40 commits to main', '- c5', '35 more'],
    notice: { click: 'https://gitea.example/c' },
  },
  'GitHub: dependabot': {
    headers: { 'x-github-event': 'dependabot_alert' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        action: 'created',
        alert: {
          number: 3,
          state: 'open',
          dependency: { package: { ecosystem: 'npm', name: 'lodash' }, manifest_path: 'package-lock.json' },
          security_advisory: { ghsa_id: 'G', summary: 'Prototype pollution', severity: 'high' },
          html_url: 'https://gh.example/d/3',
        },
      },
    },
    has: ['#3: Prototype pollution', 'package: lodash', 'severity: high', 'state: open'],
    notice: { click: 'https://gh.example/d/3' },
  },
  'GitHub: code scanning': {
    headers: { 'x-github-event': 'code_scanning_alert' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        action: 'created',
        alert: {
          number: 4,
          state: 'open',
          rule: { severity: 'error', security_severity_level: 'critical', description: 'SQL injection' },
          tool: { name: 'CodeQL' },
          html_url: 'https://gh.example/s/4',
        },
      },
    },
    has: ['#4: SQL injection', 'severity: critical'],
  },
  'GitHub: deployment status': {
    headers: { 'x-github-event': 'deployment_status' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        action: 'created',
        deployment_status: {
          state: 'failure',
          environment: 'prod',
          description: 'it broke',
          target_url: 'https://ci.example/1',
        },
        deployment: { ref: 'main' },
      },
    },
    has: ['failure', 'it broke', 'environment: prod'],
    notice: { click: 'https://ci.example/1' },
  },
  'GitHub: status': {
    headers: { 'x-github-event': 'status' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        state: 'failure',
        context: 'ci/test',
        description: '3 failed',
        target_url: 'https://ci.example/2',
        commit: { sha: 'a' },
        branches: [],
      },
    },
    has: ['ci/test', 'failure', '3 failed'],
    notice: { click: 'https://ci.example/2' },
  },
  'GitHub: release': {
    headers: { 'x-github-event': 'release' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        action: 'published',
        release: { tag_name: 'v1', name: '', html_url: 'https://gh.example/v1', body: 'Notes' },
      },
    },
    has: ['published release: v1'],
  },
  'GitHub: fork': {
    headers: { 'x-github-event': 'fork' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{ forkee: { full_name: 'c/b', html_url: 'https://gh.example/c/b' } },
    },
    has: ['alice forked', 'c/b'],
    notice: { click: 'https://gh.example/c/b' },
  },
  'GitHub: create': {
    headers: { 'x-github-event': 'create' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{ ref: 'dev', ref_type: 'branch' },
    },
    has: ['alice created branch: dev'],
  },
  'GitHub: wiki': {
    headers: { 'x-github-event': 'gollum' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        pages: [{ page_name: 'Home', title: 'Home', action: 'edited', html_url: 'https://gh.example/w' }],
      },
    },
    has: ['alice edited wiki page: Home'],
  },
  'GitHub: member': {
    headers: { 'x-github-event': 'member' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{ action: 'added', member: { login: 'bob', html_url: 'https://gh.example/bob' } },
    },
    has: ['alice added member: bob'],
  },
  'GitHub: check suite': {
    headers: { 'x-github-event': 'check_suite' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        action: 'completed',
        check_suite: { conclusion: 'success', head_branch: 'main', app: { name: 'Actions' } },
      },
    },
    has: ['check suite completed: Actions on main: success'],
  },
  'GitHub: label': {
    headers: { 'x-github-event': 'issues' },
    body: {
      sender: { login: 'alice' },
      repository: { full_name: 'a/b', html_url: 'https://gh.example/a/b' },
      ...{
        action: 'labeled',
        issue: { number: 1, title: 'Bug', html_url: 'https://gh.example/1' },
        label: { name: 'urgent' },
      },
    },
    has: ['alice labeled issue #1: Bug', 'label: urgent'],
  },
  Statuspage: {
    body: {
      meta: { unsubscribe: 'https://s.example/u' },
      page: { id: 'p', status_indicator: 'major', status_description: 'Partial outage' },
      incident: {
        name: 'API errors',
        status: 'investigating',
        impact: 'major',
        shortlink: 'https://stspg.example/x',
        incident_updates: [{ body: 'We look at it', status: 'investigating' }],
      },
    },
    has: ['API errors', 'investigating', 'We look at it', 'https://stspg.example/x'],
  },
  Proxmox: {
    body: {
      title: 'vzdump backup status: failed',
      message: 'Details\n=====\nVM 100 failed',
      severity: 'error',
      fields: { hostname: 'pve', type: 'vzdump' },
      timestamp: 1,
    },
    has: ['VM 100 failed', 'fields.hostname: pve'],
    notice: { title: 'vzdump backup status: failed' },
  },
  Jellyfin: {
    body: {
      NotificationType: 'ItemAdded',
      ServerName: 'Home',
      Name: 'Dune',
      Overview: 'A desert',
      Year: 2021,
      ItemType: 'Movie',
      ItemId: 'x',
      ServerUrl: 'https://jf.example',
    },
    has: ['ItemAdded', 'Dune', 'A desert'],
  },
  Healthchecks: {
    body: { check: 'backup', status: 'down', name: 'Nightly backup', tags: 'prod' },
    has: ['Nightly backup', 'down'],
  },
  Gatus: {
    body: {
      text: '',
      title: ':helmet_with_white_cross: Gatus',
      attachments: [
        {
          title: 'A',
          text: 'An alert for *core/db* has been triggered:\n> healthcheck failed 3 time(s)',
          short: false,
          color: '#DD0000',
          fields: [{ title: 'Condition results', value: ':x: - `[STATUS] == 200`\n', short: false }],
        },
      ],
    },
    has: ['An alert for core/db has been triggered', '[STATUS] == 200'],
    hasNot: ['#DD0000'],
  },
  Gotify: {
    body: {
      title: 'T',
      message: 'M',
      priority: 8,
      extras: { 'client::display': { contentType: 'text/markdown' } },
    },
    has: ['M'],
    hasNot: ['client'],
    notice: { priority: 'max' },
  },
  Bark: {
    body: {
      title: '标题',
      body: '内容',
      level: 'timeSensitive',
      device_key: 'secret',
      badge: 1,
      sound: 'x',
      icon: 'https://i',
      group: 'g',
      url: 'https://b.example',
    },
    has: ['内容'],
    hasNot: ['secret', 'device'],
    notice: { title: '标题', priority: 'high' },
  },
  Server酱: {
    body: 'title=%E5%A4%87%E4%BB%BD&desp=%E5%A4%B1%E8%B4%A5',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    has: ['失败'],
    hasNot: ['%'],
    notice: { title: '备份' },
  },
  'Server酱, its first names': {
    body: 'text=%E5%A4%87%E4%BB%BD&desp=%E5%A4%B1%E8%B4%A5',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    has: ['失败'],
    hasNot: ['%'],
    notice: { title: '备份' },
  },
  'a form that is not encoded': {
    body: 'title=备份失败&desp=磁盘满了 100%',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    has: ['磁盘满了 100%'],
    hasNot: ['='],
    notice: { title: '备份失败' },
  },
  'a form in GBK': {
    body: 'title=%B1%B8%B7%DD&content=%B4%C5%C5%CC%C2%FA',
    headers: { 'content-type': 'application/x-www-form-urlencoded; charset=gbk' },
    has: ['磁盘满'],
    hasNot: ['%'],
    notice: { title: '备份' },
  },
  'a query': {
    body: '',
    headers: {},
    query: { text: '备份', desp: '失败' },
    has: ['失败'],
    notice: { title: '备份' },
  },
  PushDeer: {
    body: 'pushkey=PDU1&text=%E5%A4%87%E4%BB%BD&desp=%E5%A4%B1%E8%B4%A5&type=markdown',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    has: ['失败'],
    hasNot: ['PDU1'],
    notice: { title: '备份' },
  },
  Pushover: {
    body: 'token=abc&user=u&message=Hi&title=T&priority=2&url=https%3A%2F%2Fa.example&url_title=Go',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    has: ['Hi'],
    hasNot: ['abc', 'user'],
    notice: { priority: 'max', click: 'https://a.example' },
  },
  'a message beside its host': { body: { message: 'm', host: 'db1' }, has: ['m', 'host: db1'] },
}

test.each(Object.entries(rows))('%s', async (_, row) => {
  const { has, hasNot = [], notice = {} } = row
  const notices = await read(row)
  expect(notices).toHaveLength(1)
  for (const part of has) expect(notices[0]!.text).toContain(part)
  for (const part of hasNot) expect(notices[0]!.text).not.toContain(part)
  expect(notices[0]).toMatchObject(notice)
})

test('every way to name files: each is one, and what is none is named in words', async () => {
  const base64 = Buffer.from(
    'a longer text, so that nobody takes it for a name or a path of a file',
  ).toString('base64')
  const attached: [unknown, number][] = [
    ['https://a.example/1.jpg', 1],
    ['https://a.example/1.jpg, https://a.example/2.jpg', 2],
    [['https://a.example/1.jpg', 'http://a.example/2.jpg'], 2],
    [{ url: 'https://a.example/1.jpg', name: 'one.jpg' }, 1],
    [
      [
        { href: 'https://a.example/1.jpg' },
        { filename: 'a.txt', base64: 'aGk=' },
        { data: `data:text/plain;base64,${base64}` },
      ],
      3,
    ],
    [base64, 1],
    [`data:text/plain;base64,${base64}`, 1],
  ]
  for (const key of ['attach', 'attachment', 'attachments'])
    for (const [value, count] of attached) {
      const notices = await read({ body: { message: 'x', [key]: value } })
      expect(notices.filter(({ file }) => file)).toHaveLength(count)
      expect(notices[0]!.text).toBe('x')
    }
  for (const none of [
    '/etc/passwd',
    'file:///etc/passwd',
    { path: '/etc/passwd' },
    { filename: '/etc/passwd', base64: '???' },
  ]) {
    const [notice, ...others] = await read({ body: { message: 'x', attachments: [none] } })
    expect([notice!.file, others.length, notice!.text.split('\n').length]).toEqual([undefined, 0, 2])
    expect(notice!.text).toContain('/etc/passwd')
  }
  const form = new FormData()
  form.set('body', 'Two pictures')
  form.set('type', 'failure')
  for (const name of ['a.png', 'b.png']) form.append(name, new File([name], name))
  const answer = new Response(form)
  const sent = {
    headers: { 'content-type': answer.headers.get('content-type')! },
    body: await answer.bytes(),
  }
  expect(await read(sent)).toMatchObject([
    { text: 'Two pictures', priority: 'high', file: { name: 'a.png' } },
    { priority: 'high', file: { name: 'b.png' } },
  ])
})

test('words for severities, as other programs have them', async () => {
  for (const [word, priority] of [
    ['P1', 'max'],
    ['CRITICAL', 'max'],
    [' Page ', 'max'],
    ['2 - High', 'high'],
    ['Disaster', 'max'],
    ['normal', 'default'],
    ['', 'default'],
    ['0', 'default'],
    [0, 'default'],
    ['Not classified', 'default'],
  ] as const) {
    const [notice] = await read({ body: { message: 'x', priority: word } })
    expect([word, notice!.priority]).toEqual([word, priority])
  }
  const [unknown] = await read({ body: { message: 'x', severity: '紧急' } })
  expect(unknown).toMatchObject({ priority: 'default', unread: { severity: '紧急' } })
  const [numbered] = await read({ body: { message: 'x', level: 50 } })
  expect(numbered).toEqual({ text: 'x\nlevel: 50', priority: 'default' })
})

const gbk = new Uint8Array([0xb4, 0xc5, 0xc5, 0xcc, 0xc2, 0xfa])
test.each<[what: string, bytes: Uint8Array, type: string | undefined, text: string]>([
  ['GBK, declared', gbk, 'text/plain; charset=GBK', '磁盘满'],
  ['GBK', gbk, undefined, '磁盘满'],
  ['GBK in quotes', gbk, 'text/plain; format=flowed; charset="gb2312"', '磁盘满'],
  [
    'GBK beside Latin letters',
    Buffer.concat([Buffer.from('db1 backup '), gbk]),
    undefined,
    'db1 backup 磁盘满',
  ],
  [
    'UTF-16 with its mark',
    Buffer.concat([new Uint8Array([0xff, 0xfe]), Buffer.from('满 ok', 'utf16le')]),
    undefined,
    '满 ok',
  ],
  ['UTF-16, declared', Buffer.from('满 ok', 'utf16le'), 'text/plain; charset=utf-16le', '满 ok'],
  ['UTF-8 with its mark', Buffer.from('\ufeff满'), 'text/plain', '满'],
  ['Latin-1, declared', Buffer.from('Grüße', 'latin1'), 'text/plain; charset=iso-8859-1', 'Grüße'],
  ...[
    'Grüße aus Köln',
    'Ça été déjà vu',
    'ATENÇÃO: à manutenção',
    'Größe: 5 m²',
    'Señal débil',
    'blåbærsyltetøy',
    'Fußgängerübergänge',
    '15 °C à Zürich',
  ].map((text): [string, Uint8Array, undefined, string] => [
    text,
    Buffer.from(text, 'latin1'),
    undefined,
    text,
  ]),
])('bytes are what they can only be: %s', async (_, bytes, type, text) => {
  const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type }
  expect(await read({ headers, body: bytes })).toEqual([{ text, priority: 'default' }])
  const json = Buffer.concat([Buffer.from('{"title":"'), bytes, Buffer.from('","message":"x","priority":4}')])
  const isWide = text === '满 ok'
  if (!isWide)
    expect(await read({ headers, body: new Uint8Array(json) })).toMatchObject([
      { text: 'x', priority: 'high' },
    ])
})

test('JSON in UTF-16 keeps its title and its priority', async () => {
  const body = Buffer.concat([
    new Uint8Array([0xff, 0xfe]),
    Buffer.from('{"title":"磁盘","message":"满","priority":4}', 'utf16le'),
  ])
  const headers = { 'content-type': 'application/json' }
  expect(await read({ headers, body })).toEqual([{ title: '磁盘', text: '满', priority: 'high' }])
})

const manyFields = (most: number, value: unknown = 1) =>
  Object.fromEntries(Array.from({ length: most }, (_, nth) => [`k${nth}`, value]))

test('more fields than anybody reads are refused: of JSON, also inside a text, and of a form', async () => {
  const form = (most: number) => ({
    body: `${new URLSearchParams(manyFields(most) as never)}`,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })
  const inside = { ...form(0), body: `payload=${encodeURIComponent(JSON.stringify(manyFields(60_000)))}` }
  for (const wide of [{ body: manyFields(60_000) }, form(2000), inside])
    expect(await codeOf(read(wide))).toBe('payload_too_large')
  for (const short of [{ body: manyFields(2000) }, form(500)])
    expect((await read(short))[0]!.text).toContain('k0: 1')
  const text = { ...form(0), body: `Tom & Jerry ${'& more '.repeat(2000)}` }
  expect((await read(text))[0]).toMatchObject({ text: text.body.trim() })
})

test('what is not shown is not read: values after some thousands, and a name without end', async () => {
  const values = Array(20_000).fill('x')
  const [notice] = await read({ body: { ['k'.repeat(100_000)]: values } })
  const lines = notice!.text.split('\n')
  expect(lines).toHaveLength(31)
  expect(Number(/\d+/.exec(lines.at(-1)!)?.[0])).toBeLessThan(10_000)
  const said = { message: 'm'.repeat(600_000), lines: values.map((_, nth) => ({ title: `title ${nth}` })) }
  expect((await read({ body: said }))[0]!.text).toContain('title 7')
})

test('between two large bodies, others have their turn', async () => {
  const headers = new Headers({ 'content-type': 'application/json' })
  const bytes = new Uint8Array(Buffer.from(JSON.stringify(manyFields(10_000))))
  const order: string[] = []
  let isOver = false
  const note = () => {
    order.push('turn')
    if (!isOver) setImmediate(note)
  }
  setImmediate(note)
  const bodies = [1, 2, 3].map(async () => {
    await readBodyForm({ headers, query: {} }, bytes, parseLossless)
    order.push('body')
  })
  await Promise.all(bodies)
  isOver = true
  expect(order.join(' ')).not.toContain('body body')
})
