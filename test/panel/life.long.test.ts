import { pointer } from '../support/panel-hand.ts'
import { liveThrough, phone, wide } from './life.ts'

liveThrough('zh', phone, pointer)
liveThrough('zh', wide, pointer)
liveThrough('en', phone, pointer)
