-- Lane repairs exclude each other, and claims, renewals and releases (which update lanes): what was read stays true until
-- the commit. Marks only read lanes; they are fenced by their number in batches.
LOCK TABLE "fencepost".lanes IN SHARE ROW EXCLUSIVE MODE
