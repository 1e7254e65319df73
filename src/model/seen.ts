/** What people see of a text: texts that look alike are compared without what is invisible in them. */
const unseen = /[\p{Cc}\p{Default_Ignorable_Code_Point}]/gu

export const withoutUnseen = (text: string): string => text.replace(unseen, '')
