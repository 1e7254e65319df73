import { describe, expect, test } from 'bun:test'
import {
  createClientId,
  createMediaItem,
  createOutgoingMessage,
  createTextItem,
  kindAsSentOf,
  type UploadedMedia,
  uploadTypeOf,
  withContextToken,
} from '../../src/ilink/encode.ts'
import type { MediaKind } from '../../src/model/message.ts'

const uploaded = (kind: MediaKind): UploadedMedia => ({
  kind,
  downloadParam: 'param+/=',
  aesKeyHex: '000102030405060708090a0b0c0d0e0f',
  size: 100,
  cipherSize: 112,
  file_name: '报告.pdf',
})
const media = {
  encrypt_query_param: 'param+/=',
  aes_key: 'MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY=',
  encrypt_type: 1,
}

describe('mediaItem has the shapes of the official client', () => {
  const file = { type: 4, file_item: { media, file_name: '报告.pdf', len: '100' } }
  const cases: [MediaKind, unknown][] = [
    ['image', { type: 2, image_item: { media, mid_size: 112 } }],
    ['video', { type: 5, video_item: { media, video_size: 112 } }],
    ['file', file],
    // WeChat accepts voice of a bot and never shows it.
    ['voice', file],
  ]
  for (const [kind, expected] of cases)
    test(kind, () => expect(createMediaItem(uploaded(kind)) as unknown).toEqual(expected))
})

test('upload types are not item types, and voice is uploaded as a file', () => {
  const kinds: MediaKind[] = ['image', 'video', 'file', 'voice']
  expect(kinds.map(uploadTypeOf)).toEqual([1, 2, 3, 3])
  expect(kinds.map(kindAsSentOf)).toEqual(['image', 'video', 'file', 'file'])
})

test('a message carries one item, and only the tokens there are', () => {
  const whole = withContextToken(
    createOutgoingMessage({
      to: 'o9Cq@im.wechat',
      item: createTextItem('hi'),
      clientId: 'svc:1-00000000',
    }),
    'ctx',
  )
  expect(whole as unknown).toEqual({
    from_user_id: '',
    to_user_id: 'o9Cq@im.wechat',
    client_id: 'svc:1-00000000',
    message_type: 2,
    message_state: 2,
    item_list: [{ type: 1, text_item: { text: 'hi' } }],
    context_token: 'ctx',
  })
  const bare = createOutgoingMessage({ to: 'u', item: createTextItem(''), clientId: 'c' })
  expect(Object.keys(bare)).not.toContain('context_token')
})

test('client ids carry the time and are different each time', () => {
  const ids = Array.from({ length: 100 }, () => createClientId(1758100000000))
  for (const id of ids) expect(id).toMatch(/^svc:1758100000000-[0-9a-f]{8}$/)
  expect(new Set(ids).size).toBe(100)
})
