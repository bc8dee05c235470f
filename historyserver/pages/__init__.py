"""Our own pages: the list of sessions, what is known of one, and messages. Server-rendered.

No JavaScript at all, one stylesheet, light and dark by the reader's system. The pages get plain
data and return HTML; `routes` answers with them. What they show of a session are its facts
(`compiled.meta`); they import no query.
"""
