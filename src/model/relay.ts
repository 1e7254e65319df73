/** Programs that speak WeChat's protocol to svc. */

/** What a program may answer: all; only what names it or quotes it; so many sends to each message of a person. */
export type RelayAnswers = 'all' | 'called' | number
