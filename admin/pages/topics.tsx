/** The page of topics. The URL names the topic whose detail is open. */
import { t } from '../i18n.ts'
import { setParams, useParam } from '../place.ts'
import { type Asked, LeaveTopic, RemoveTopic, SenderKey } from '../topics/ask.tsx'
import { TopicDetail } from '../topics/detail.tsx'
import { AddTopic, ChangeTopic, JoinTopic, OwnHours } from '../topics/form.tsx'
import { TopicTable } from '../topics/table.tsx'
import { loadTopics, topics } from '../topics/topics.ts'
import { useAsked } from '../ui/ask.tsx'
import { AddButton, ListPage, Nothing, useLoading } from '../ui/list-page.tsx'

export function TopicsPage() {
  const { failure, again } = useLoading(loadTopics)
  const { question, ask, close } = useAsked<Asked>()
  const shown = useParam('topic')
  const open = topics.value?.find(({ name }) => name === shown)
  const add = <AddButton text={t('topics.add')} onClick={() => ask({ what: 'add' })} />
  return (
    <ListPage
      title={t('topics.title')}
      about={t('topics.about')}
      action={add}
      all={topics.value}
      failure={failure}
      onRetry={again}
      empty={
        <Nothing
          icon="topics"
          title={t('topics.none')}
          about={t('topics.none_about')}
          action={add}
          command="svc topic add home --to Mum"
        />
      }
      after={
        <>
          {open && (
            <TopicDetail key={shown} topic={open} onAsk={ask} onClose={() => setParams({ topic: '' })} />
          )}
          <Question asked={question} onClose={close} />
        </>
      }
    >
      {all => <TopicTable all={all} onAsk={ask} />}
    </ListPage>
  )
}

function Question({ asked, onClose }: { asked: Asked | undefined; onClose(): void }) {
  switch (asked?.what) {
    case 'add':
      return <AddTopic onClose={onClose} />
    case 'change':
      return <ChangeTopic topic={asked.topic} onClose={onClose} />
    case 'join':
      return <JoinTopic topic={asked.topic} onClose={onClose} />
    case 'hours':
      return <OwnHours topic={asked.topic} person={asked.person} onClose={onClose} />
    case 'leave':
      return <LeaveTopic topic={asked.topic} person={asked.person} onClose={onClose} />
    case 'key':
      return <SenderKey topic={asked.topic} onClose={onClose} />
    case 'remove':
      return <RemoveTopic topic={asked.topic} onClose={onClose} />
    default:
      return null
  }
}
