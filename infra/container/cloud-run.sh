#!/bin/sh
# Two or more servers on Cloud Run and Cloud SQL (docs/homes.md). Set IMAGE, PROJECT and
# REGION. Secret Manager contains the secrets rescind-key, rescind-root and rescind-pgpass.
set -eu
sql=$PROJECT:$REGION:rescind
exec gcloud run deploy rescind --project "$PROJECT" --region "$REGION" --image "$IMAGE" \
    --execution-environment gen2 --no-cpu-throttling --cpu 1 --memory 1Gi \
    --min-instances 2 --max-instances 4 --timeout 60 --port 8080 --allow-unauthenticated \
    --startup-probe httpGet.path=/healthz,periodSeconds=2,timeoutSeconds=2,failureThreshold=45 \
    --liveness-probe httpGet.path=/healthz,periodSeconds=10,timeoutSeconds=5,failureThreshold=6 \
    --set-cloudsql-instances "$sql" \
    --set-secrets /secrets/key/master.key=rescind-key:1,/secrets/root/root.key=rescind-root:1,/secrets/database/pgpass=rescind-pgpass:1 \
    --set-env-vars "RESCIND_STORE=postgresql:///rescind?host=/cloudsql/$sql" \
    --set-env-vars RESCIND_BLOBS=postgresql:,RESCIND_KEY_WRAPPER=file:/tmp/secrets/master.key \
    --set-env-vars RESCIND_ROOT=file:/tmp/secrets/root.key \
    --set-env-vars PGUSER=rescind,PGPASSFILE=/tmp/secrets/pgpass
