-- Reads a page of workflows in the order of their ids. Locks nothing. The ids are found one after the other, each by a probe of
-- two indexes, so that a page costs what it shows and not what the tables hold.
-- $1 namespace, $2 state, $3 after, $4 limit, $5 now
WITH RECURSIVE known (workflow) AS (
    SELECT least(
        (SELECT min(r.workflow) FROM {schema}workflow_checkpoint r WHERE r.workflow > coalesce($3::text, '')),
        (SELECT min(c.workflow) FROM {schema}workflow_claim c WHERE c.workflow > coalesce($3::text, '')))
    UNION ALL
    SELECT least(
        (SELECT min(r.workflow) FROM {schema}workflow_checkpoint r WHERE r.workflow > known.workflow),
        (SELECT min(c.workflow) FROM {schema}workflow_claim c WHERE c.workflow > known.workflow))
    FROM known
    WHERE known.workflow IS NOT NULL
)
SELECT stand.*
FROM known
CROSS JOIN LATERAL {schema}workflow_stand(known.workflow, coalesce($5, now())) AS stand
WHERE ($1::text IS NULL OR stand.namespace = $1) AND ($2::text IS NULL OR stand.state = $2)
LIMIT $4
