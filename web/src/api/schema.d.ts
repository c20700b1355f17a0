// Made by `npm run types` from the API's description. Do not edit.
// mark: 5a8b7ca4ec8403a8

export interface paths {
    "/api/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Jobs
         * @description List jobs of any state, newest first.
         */
        get: operations["list_jobs"];
        put?: never;
        /**
         * Submit Jobs
         * @description Submit a job file: one job, or one for every point of its sweep. All are accepted or none.
         */
        post: operations["submit_jobs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Job
         * @description Show one job, with its goals, the requests chosen for it, what it used, and how good predictions like its own
         *     were.
         */
        get: operations["get_job"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change Job
         * @description Change a pending or running job.
         */
        patch: operations["change_job"];
        trace?: never;
    };
    "/api/v1/jobs/{job}/source": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Job Source
         * @description Show the job as it was accepted: command, environment, requests. For its owner.
         */
        get: operations["get_job_source"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel Job
         * @description Cancel a job.
         */
        post: operations["cancel_job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/hold": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Hold Job
         * @description Keep a pending job from starting.
         */
        post: operations["hold_job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Release Job
         * @description Release a held job.
         */
        post: operations["release_job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/resubmit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resubmit Job
         * @description Submit the same job again, as a new one.
         */
        post: operations["resubmit_job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/why": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Why Job
         * @description List all reasons why a job is pending, and what hang detection warns about if it runs.
         */
        get: operations["why_job"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/when": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * When Job
         * @description Forecast the start and predict the run time of a job, as ranges, with the accuracy of such forecasts.
         */
        get: operations["when_job"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/whatif": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * What If
         * @description Show what would happen to a job submitted now. Nothing is submitted.
         */
        post: operations["what_if"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/story": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Job Story
         * @description List the events of a job, oldest first.
         */
        get: operations["job_story"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pods/{namespace}/{pod}/job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Job Of Pod
         * @description Show the job of a pod. There is none while its gang is incomplete, or if the pod cannot be parsed.
         */
        get: operations["job_of_pod"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/recommend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Recommend
         * @description Recommend what a job should request from similar past runs, with run times for several numbers of GPUs and
         *     reasons.
         */
        post: operations["recommend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Logs
         * @description Read a part of a task's log: from an offset in bytes, or its last lines. Of the latest attempt unless given.
         */
        get: operations["read_logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/logs/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream Logs
         * @description Stream a job's log as it is written, over all attempts, up to its end.
         */
        get: operations["stream_logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/queue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Queue
         * @description List pending jobs in queue order, running jobs and jobs that the service holds. Positions count all tenants.
         */
        get: operations["get_queue"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Cluster
         * @description Summarise all nodes.
         */
        get: operations["get_cluster"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Nodes
         * @description List nodes with their cards and jobs. Jobs of other tenants are not named.
         */
        get: operations["list_nodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes/{node}/drain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Drain Node
         * @description Start no new jobs on this node. Running jobs finish.
         */
        post: operations["drain_node"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes/{node}/undrain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Undrain Node
         * @description Use the node again.
         */
        post: operations["undrain_node"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/cordon": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cordon Card
         * @description Start no new jobs on this card. Running jobs finish.
         */
        post: operations["cordon_card"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/uncordon": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Uncordon Card
         * @description Use the card again.
         */
        post: operations["uncordon_card"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/samples": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Samples
         * @description Show the utilisation of a card, by default of the last hour.
         */
        get: operations["list_samples"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/windows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Windows
         * @description List maintenance windows.
         */
        get: operations["list_windows"];
        put?: never;
        /**
         * Add Window
         * @description Add a maintenance window: no gang starts there that would run into it.
         */
        post: operations["add_window"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/windows/{window}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove Window
         * @description Remove a maintenance window.
         */
        delete: operations["remove_window"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Cards
         * @description List all cards with their divide policies.
         */
        get: operations["list_cards"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/divide": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set Card Divide
         * @description Set a card's divide policy. Jobs on it continue; the change takes effect with the next squad.
         */
        put: operations["set_card_divide"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/divide/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Card Divides
         * @description List all changes of a card's divide policy, newest first.
         */
        get: operations["list_card_divides"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Card
         * @description Show how a card is divided now. Jobs of other tenants are not named.
         */
        get: operations["get_card"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Policy
         * @description Show the policies in use, and since when.
         */
        get: operations["get_policy"];
        /**
         * Set Policy
         * @description Set other policies from the next cycle on. Running jobs continue.
         */
        put: operations["set_policy"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policy/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Revisions
         * @description List all changes of the policies, newest first.
         */
        get: operations["list_revisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policy/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Preview Policy
         * @description Show what other policies would do to the current queue. Nothing changes.
         */
        post: operations["preview_policy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Usage
         * @description List GPU hours within an interval, largest first. Running jobs count up to now.
         */
        get: operations["get_usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/predictions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Predictions
         * @description Show errors and calibration of predicted run times, by tenant and by source, the accuracy of start forecasts, and
         *     promised starts with the actual ones; by default of the last 30 days.
         */
        get: operations["get_predictions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream Events
         * @description Stream all events of all jobs that the caller may see.
         */
        get: operations["stream_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Me
         * @description Show the caller and its permissions.
         */
        get: operations["get_me"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tenants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Tenants
         * @description List all tenants for administrators, otherwise the caller's.
         */
        get: operations["list_tenants"];
        put?: never;
        /**
         * Add Tenant
         * @description Create a tenant.
         */
        post: operations["add_tenant"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tenants/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Put Tenant
         * @description Set a tenant's weight, guarantee, limits, rights and budget, all of them; created if it does not exist.
         */
        put: operations["put_tenant"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Users
         * @description List all users for administrators, otherwise those of the caller's tenant.
         */
        get: operations["list_users"];
        put?: never;
        /**
         * Add User
         * @description Create a user, who needs a token for access.
         */
        post: operations["add_user"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change User
         * @description Change a user's tenant, role or rights, or disable the user. Takes effect at once.
         */
        patch: operations["change_user"];
        trace?: never;
    };
    "/api/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Tokens
         * @description List all tokens for administrators, otherwise the caller's.
         */
        get: operations["list_tokens"];
        put?: never;
        /**
         * Add Token
         * @description Create a token with at most the scopes and lifetime of the caller's token.
         */
        post: operations["add_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/{token}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revoke Token
         * @description Revoke a token at once.
         */
        delete: operations["revoke_token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Audit
         * @description List all changes, newest first.
         */
        get: operations["list_audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Secrets
         * @description List the names of secrets.
         */
        get: operations["list_secrets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Put Secret
         * @description Set a secret, replacing an earlier value.
         */
        put: operations["put_secret"];
        post?: never;
        /**
         * Remove Secret
         * @description Delete a secret. Running tasks keep its value.
         */
        delete: operations["remove_secret"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Rules
         * @description List the caller's rules. Addresses are shown without their secrets.
         */
        get: operations["list_rules"];
        put?: never;
        /**
         * Add Rule
         * @description Add a rule: send notices of these kinds to this address.
         */
        post: operations["add_rule"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/rules/{rule}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove Rule
         * @description Remove a rule and its undelivered notices.
         */
        delete: operations["remove_rule"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/outbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Outbox
         * @description List the caller's notices, newest first: waiting, sent, or dead (given up).
         */
        get: operations["list_outbox"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test Notice
         * @description Send one notice now, to an address or by a rule.
         */
        post: operations["test_notice"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/{notice}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Retry Notice
         * @description Retry a dead notice from the beginning.
         */
        post: operations["retry_notice"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/inbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Inbox
         * @description List the caller's inbox, newest first.
         */
        get: operations["list_inbox"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/inbox/read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Mark Read
         * @description Mark entries of the caller's inbox as read.
         */
        post: operations["mark_read"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/schema/job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Job Schema
         * @description Show the JSON Schema of a job file.
         */
        get: operations["get_job_schema"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/timeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Timeline
         * @description Show past and running jobs on the cards with predicted ends, reservations, planned starts and maintenance
         *     windows. By default from a day before now to half a day after; at most 31 days and 20,000 bars. Jobs of other
         *     tenants are not named; pending ones are left out while the plan has no cards for them.
         */
        get: operations["get_timeline"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/efficiency": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Efficiency
         * @description Show GPU-hours of all tenants by use, in total and by node. Attempts give the allocation, samples the
         *     utilisation, and thirty instants in each slot the pending jobs. A job counts as pending from its submission, or the
         *     end of an attempt, to its next start, unless it is held now. Slots are ten minutes long, and longer for many cards
         *     or a long time; of each, the samples of the first ten minutes are read. A slot without a sample of a card is
         *     unknown.
         */
        get: operations["get_efficiency"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/free": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Free
         * @description Count cards by state, and the gangs of this size that fit.
         */
        get: operations["get_free"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/interference": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Interference
         * @description Show known interference: workloads alone, all pairs with the source of each value, and the model's error.
         *     Workloads that were only learned have names chosen by tenants, so they are for administrators.
         */
        get: operations["get_interference"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/neighbours": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Job Neighbours
         * @description List the neighbours of a job on its cards, with the predicted and observed slowdown. Jobs of other tenants are
         *     not named.
         */
        get: operations["job_neighbours"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/goals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Goals
         * @description Show weights, SLOs and their attainment, by tenant and job; for administrators of all tenants, otherwise of the
         *     caller's. Deadlines are judged by the store. Attainment of latency, throughput and availability is reported by the
         *     card daemons: stored once a minute, and more often kept while it is requested.
         */
        get: operations["get_goals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/predictions/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Prediction Series
         * @description Show errors of predicted run times by tenant and source, their course over time, and single predictions with
         *     actual run times; by default of the last 30 days.
         */
        get: operations["get_prediction_series"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Healthz
         * @description Whether the process answers.
         */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Readyz
         * @description Whether jobs are accepted and scheduled.
         */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Metrics
         * @description Open to this machine. From elsewhere for administrators only, because the metrics name tenants.
         */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** AccuracyView */
        AccuracyView: {
            /** Count */
            count: number;
            /** Within Ratio */
            within_ratio: number | null;
            /** Median Error S */
            median_error_s: number | null;
            /**
             * Median Late S
             * @description With its sign: negative if most started before the forecast
             */
            median_late_s: number | null;
        };
        /**
         * AdviceLine
         * @description One field of the job file.
         */
        AdviceLine: {
            /** Field */
            field: string;
            /** Value */
            value: number | string;
            /**
             * Now
             * @description Value in the file; null: none
             */
            now: number | string | null;
            /**
             * Change
             * @description Whether it is worth changing
             */
            change: boolean;
            /** Why */
            why: string;
        };
        /**
         * AttainmentPoint
         * @description Attainment of a job's SLO at one time.
         */
        AttainmentPoint: {
            /** At S */
            at_s: number;
            /** Job */
            job: string;
            /** Attainment Ratio */
            attainment_ratio: number | null;
            /** Weight */
            weight: number | null;
        };
        /** AuditLine */
        AuditLine: {
            /** Id */
            id: number;
            /** At S */
            at_s: number;
            /** Actor */
            actor: string;
            /** Action */
            action: string;
            /** Target */
            target: string;
            /** Data */
            data: unknown;
        };
        /** AuditPage */
        AuditPage: {
            /** Items */
            items: components["schemas"]["AuditLine"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** AutomaticView */
        AutomaticView: {
            /**
             * Mode
             * @description The mode that the automatic mode chose
             */
            mode: string;
            /** Since S */
            since_s: number;
            /** Why */
            why: string;
            /**
             * Changes
             * @description Changes in the last 24 hours
             */
            changes: number;
            /**
             * Max Changes
             * @description Maximum number of changes in 24 hours
             */
            max_changes: number;
            /**
             * Next Mode
             * @description Another mode that fits the goals now; empty if there is none
             */
            next_mode: string;
            /**
             * Next S
             * @description When that mode comes into force at the earliest, if it still fits
             */
            next_s: number | null;
            /** Next Why */
            next_why: string;
        };
        /**
         * Bar
         * @description One attempt of a job on its cards.
         */
        Bar: {
            /**
             * Job
             * @description null: a job of another tenant
             */
            job: string | null;
            /** Name */
            name: string | null;
            /** Tenant */
            tenant: string | null;
            /** User */
            user: string | null;
            /** Attempt */
            attempt: number;
            /** Cards */
            cards: string[];
            /** Start S */
            start_s: number;
            /**
             * End S
             * @description null: still running
             */
            end_s: number | null;
            /**
             * State
             * @description How it ended, or the state of its job; of other tenants: running or over
             */
            state: string;
            /**
             * Share Ratio
             * @description Fraction of each card; 1: the whole card
             */
            share_ratio: number;
            /** @description Predicted end of a running attempt */
            expected: components["schemas"]["End"] | null;
        };
        /**
         * CalibrationPoint
         * @description Of runs of one source, the fraction that ended by the value predicted at a level.
         */
        CalibrationPoint: {
            /** Source */
            source: string;
            /** Level */
            level: number;
            /** Observed */
            observed: number;
            /** Count */
            count: number;
        };
        /** CardDetail */
        CardDetail: {
            /** Id */
            id: string;
            /** Uuid */
            uuid: string | null;
            /** Node */
            node: string;
            /** Index */
            index: number;
            /** Model */
            model: string;
            /** Memory Bytes */
            memory_bytes: number;
            /** Simulated */
            simulated: boolean;
            divide: components["schemas"]["DivideView"];
            /** @description null: not divided now */
            now: components["schemas"]["CardNow"] | null;
        };
        /** CardDivision */
        CardDivision: {
            /** Id */
            id: string;
            /** Uuid */
            uuid: string | null;
            /** Node */
            node: string;
            /** Index */
            index: number;
            /** Model */
            model: string;
            /** Memory Bytes */
            memory_bytes: number;
            /** Simulated */
            simulated: boolean;
            divide: components["schemas"]["DivideView"];
        };
        /** CardDivisionPage */
        CardDivisionPage: {
            /** Items */
            items: components["schemas"]["CardDivision"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /**
         * CardInterference
         * @description One card model. Measurement settings are not mixed: the one in use is shown.
         */
        CardInterference: {
            /** Gpu */
            gpu: string;
            /** Driver */
            driver: string | null;
            /**
             * Memory Bytes
             * @description Measured with this much card memory; null: all of it
             */
            memory_bytes: number | null;
            /**
             * Measured S
             * @description null: not measured, only learned
             */
            measured_s: number | null;
            /** Workloads */
            workloads: components["schemas"]["WorkloadView"][];
            /**
             * Pairs
             * @description All pairs of workloads, in both directions
             */
            pairs: components["schemas"]["PairView"][];
            errors: components["schemas"]["ErrorsView"];
        };
        /**
         * CardNow
         * @description Current division of a card.
         */
        CardNow: {
            /** Policy */
            policy: string;
            /**
             * Configuration
             * @description unrestricted, strict, semi-spatial or temporal
             */
            configuration: string;
            /** Length Us */
            length_us: number;
            /** Squads */
            squads: number;
            /**
             * Groups
             * @description SM groups of the card; null: unknown
             */
            groups: number | null;
            /**
             * Why
             * @description Reason given by the policy; for administrators
             */
            why: string;
            /**
             * Failure
             * @description Last error of a failing policy; for administrators
             */
            failure: string;
            /**
             * Pool
             * @description How processes of several jobs run at once on the card; empty: unknown
             */
            pool: string;
            /**
             * Context Bytes
             * @description Charged to a job's quota for the CUDA context of each of its processes
             */
            context_bytes: number;
            /** Tenants */
            tenants: components["schemas"]["TenantNow"][];
            /**
             * Unmanaged Count
             * @description Number of unmanaged processes
             */
            unmanaged_count: number;
            /**
             * Unmanaged
             * @description Unmanaged processes; for administrators
             */
            unmanaged: components["schemas"]["UnmanagedNow"][];
            /**
             * Stranger Count
             * @deprecated
             * @description Old name of unmanaged_count; removed in /api/v2
             */
            stranger_count: number;
            /**
             * Strangers
             * @deprecated
             * @description Old name of unmanaged; removed in /api/v2
             */
            strangers: components["schemas"]["StrangerNow"][];
            /**
             * Rule
             * @description Rule for unmanaged processes: report, refuse or share
             */
            rule: string;
        };
        /**
         * CardUserView
         * @description A job on a card; of other tenants only that there is one.
         */
        CardUserView: {
            /** Id */
            id: string | null;
            /** Name */
            name: string | null;
            /** User */
            user: string | null;
            /**
             * Share
             * @description sm (ratio), memory_bytes, and isolation: shared or isolated; null: the whole card
             */
            share: {
                [key: string]: number | string | null;
            } | null;
        };
        /** CardView */
        CardView: {
            /** Id */
            id: string;
            /** Uuid */
            uuid: string | null;
            /** Model */
            model: string;
            /** Memory Bytes */
            memory_bytes: number;
            /** Index */
            index: number;
            /**
             * State
             * @enum {string}
             */
            state: "free" | "busy" | "shared" | "taken_outside" | "cordoned" | "drained";
            /** Cause */
            cause: string;
            /** Jobs */
            jobs: components["schemas"]["CardUserView"][];
            /** Sample */
            sample: {
                [key: string]: unknown;
            } | null;
            /** Simulated */
            simulated: boolean;
            /** @description Last self-test; null: not tested since the start of its agent */
            self_test: components["schemas"]["SelfTestView"] | null;
        };
        /** CauseRequest */
        CauseRequest: {
            /**
             * Cause
             * @default
             */
            cause: string;
        };
        /**
         * ChangeRequest
         * @description Fields to change; others stay.
         */
        ChangeRequest: {
            /** Name */
            name?: string | null;
            /**
             * Priority
             * @description low, normal, high, urgent or an integer
             */
            priority?: string | number | null;
            /** Queue */
            queue?: string | null;
            /** Lane */
            lane?: string | null;
            /**
             * Slo
             * @description An empty one removes the SLO
             */
            slo?: {
                [key: string]: string | number;
            } | null;
            /** Estimate */
            estimate?: number | string | null;
            /** Limit */
            limit?: number | string | null;
            /**
             * Memory
             * @description Card memory for each task with a share: 6GiB, 30%; peak: observed peak plus 10 %
             */
            memory?: number | string | null;
        };
        /** ChangedJob */
        ChangedJob: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description Share of each task; null: whole cards or none, or tasks request different shares */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /**
             * Eligible S
             * @description Its place in the queue counts from then: submission, release, last dependency or retry after a failure; null: held
             */
            eligible_s: number | null;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /**
             * Losses
             * @description Recent losses: attempts that ended by a fault of a card, with their node or processes, or could not start
             */
            losses: number;
            /**
             * Next Attempt S
             * @description Earliest time of the next attempt of a held job; null: none
             */
            next_attempt_s: number | null;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
            /**
             * Memory
             * @description New card memory of each task: bytes, or a percentage; null: not set
             */
            memory: number | string | null;
        };
        /**
         * Checkpoint
         * @description Checkpoints of the job, and whether it may be preempted.
         */
        CheckpointSpec: {
            /**
             * Every
             * @description Interval at which the job saves its state to GPUSQUAD_CHECKPOINT_DIR. Default: never, so a stop loses all work.
             * @example 10m
             */
            every?: number | string | null;
            /**
             * Restart
             * @description Time that a restart takes to load the saved state.
             * @example 30s
             */
            restart?: number | string | null;
            /**
             * Preemptible
             * @description Whether the job may be preempted: stopped for another job and started again later.
             * @default true
             * @example true
             * @example false
             */
            preemptible: boolean;
            /**
             * Grace
             * @description Time between SIGTERM and SIGKILL when the job is stopped. Default: 30s.
             * @example 30s
             * @example 2m
             */
            grace?: number | string | null;
        };
        /**
         * ChosenRequest
         * @description A field that the job file left to the service (``auto``).
         */
        ChosenRequest: {
            /**
             * Field
             * @description gpus, gpu_memory, cpu or memory; of a role: roles[1].cpu
             */
            field: string;
            /**
             * Value
             * @description As a job file writes it; null: left out
             */
            value: number | string | null;
            /**
             * Amount
             * @description GPUs of a task, bytes, or cores; null: left out
             */
            amount: number | null;
            /**
             * Source
             * @description history, estimate, fair share, default, or out of memory
             */
            source: string;
            /** Why */
            why: string;
            /**
             * Used
             * @description In the unit of amount; null: not measured, or of a role
             */
            used: number | null;
        };
        /** ClusterView */
        ClusterView: {
            /** Gpus */
            gpus: number;
            /** Free */
            free: number;
            /** Usable */
            usable: {
                [key: string]: number;
            };
            /** Unhealthy */
            unhealthy: number;
            /** Taken Outside */
            taken_outside: number;
            /** Simulated */
            simulated: boolean;
            /** Mode */
            mode: string;
        };
        /**
         * CrossLine
         * @description Of one tenant and one source. Only runs that ended by themselves count; null: there were none.
         */
        CrossLine: {
            /** Tenant */
            tenant: string;
            /** Source */
            source: string;
            /** Count */
            count: number;
            /**
             * Cut
             * @description Runs that were ended early
             */
            cut: number;
            /**
             * Median Ratio
             * @description Median error relative to the actual run time
             */
            median_ratio: number | null;
            /** Mean Error S */
            mean_error_s: number | null;
            /** Within P50 */
            within_p50: number | null;
            /** Within P90 */
            within_p90: number | null;
            /** Within P99 */
            within_p99: number | null;
            /** Pinball S */
            pinball_s: number | null;
            /**
             * Bias
             * @description Median of ln(actual / median): above 0, runs take longer than predicted
             */
            bias: number | null;
        };
        /** CurvePoint */
        CurvePoint: {
            /**
             * Sm Ratio
             * @description Fraction of the SMs
             */
            sm_ratio: number;
            /**
             * Speed Ratio
             * @description Speed with these SMs over speed with all
             */
            speed_ratio: number;
        };
        /**
         * DeadlinePoint
         * @description Deadlines of a tenant met or missed in an interval of span_s that starts at at_s.
         */
        DeadlinePoint: {
            /** At S */
            at_s: number;
            /** Tenant */
            tenant: string;
            /** Met */
            met: number;
            /** Missed */
            missed: number;
        };
        /** Delay */
        Delay: {
            /** Job */
            job: string;
            /** By S */
            by_s: number;
        };
        /**
         * Dependency
         * @description A job that must end before this one starts.
         */
        DependencySpec: {
            /**
             * Job
             * @description ID or name of the job.
             * @example prepare
             */
            job: string;
            /**
             * On
             * @description Outcome that allows this job to start: success, failure or any.
             * @default success
             * @example success
             * @example any
             * @enum {string}
             */
            on: "success" | "failure" | "any";
        };
        /** DependencyView */
        DependencyView: {
            /** Job */
            job: string;
            /** On */
            on: string;
        };
        /** DivideRequest */
        DivideRequest: {
            /**
             * Policy
             * @description For example slo or hybrid:alpha=0.5; null: the mode's policy
             */
            policy: string | null;
            /**
             * Note
             * @default
             */
            note: string;
        };
        /** DivideRevision */
        DivideRevision: {
            /** Revision */
            revision: number;
            /** At S */
            at_s: number;
            /** By */
            by: string;
            /** Card */
            card: string;
            /** Policy */
            policy: string | null;
            /** Note */
            note: string;
        };
        /** DivideRevisionPage */
        DivideRevisionPage: {
            /** Items */
            items: components["schemas"]["DivideRevision"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /**
         * DivideView
         * @description Divide policy of a card and whether it is in effect.
         */
        DivideView: {
            /** Policy */
            policy: string;
            /**
             * Own
             * @description Set for this card; otherwise the mode's policy
             */
            own: boolean;
            /**
             * Of Mode
             * @description The mode's policy
             */
            of_mode: string;
            /**
             * Revision
             * @description Last change for this card; null: none
             */
            revision: number | null;
            /** Since S */
            since_s: number | null;
            /** By */
            by: string;
            /** Note */
            note: string;
            /**
             * Effect
             * @description live: in effect. told: still changing, or the daemon does not answer. unused: the card is not shared now. kept: cards are not divided here
             * @enum {string}
             */
            effect: "live" | "told" | "unused" | "kept";
            /** Message */
            message: string;
        };
        /**
         * Done
         * @description Done, without further data.
         */
        Done: {
            /** Ok */
            ok: boolean;
        };
        /** EfficiencyView */
        EfficiencyView: {
            /** Since S */
            since_s: number;
            /** Until S */
            until_s: number;
            /**
             * Slot S
             * @description Span over which samples are averaged
             */
            slot_s: number;
            total: components["schemas"]["GpuHours"];
            /** Nodes */
            nodes: components["schemas"]["NodeHours"][];
            /**
             * Truncated
             * @description There are more attempts or jobs than were read: the numbers cover a part
             */
            truncated: boolean;
        };
        /**
         * End
         * @description Predicted end of a running job.
         */
        End: {
            /** Mid S */
            mid_s: number | null;
            /** High S */
            high_s: number | null;
            /** Source */
            source: string;
        };
        /**
         * ErrorLine
         * @description Of one tenant or one source. Only runs that ended by themselves count; null: there were none.
         */
        ErrorLine: {
            /** Key */
            key: string;
            /** Count */
            count: number;
            /**
             * Cut
             * @description Runs that were ended early, whose full run time is unknown
             */
            cut: number;
            /**
             * Median Ratio
             * @description Median error relative to the actual run time
             */
            median_ratio: number | null;
            /**
             * Mean Error S
             * @description Mean distance of the median from the actual run time
             */
            mean_error_s: number | null;
            /**
             * Within P50
             * @description Fraction that ended by then; one half if well calibrated
             */
            within_p50: number | null;
            /** Within P90 */
            within_p90: number | null;
            /** Within P99 */
            within_p99: number | null;
            /**
             * Pinball S
             * @description Mean pinball loss over the levels; less is better
             */
            pinball_s: number | null;
            /**
             * Bias
             * @description Median of ln(actual / median): above 0, runs take longer than predicted
             */
            bias: number | null;
        };
        /** ErrorsView */
        ErrorsView: {
            /** @description Of the fitted model, on pairs with SM partitions */
            splits: components["schemas"]["ModelErrors"] | null;
            /** @description Of predicting three workloads from pairs, by the method in use */
            triples: components["schemas"]["ModelErrors"] | null;
            /** @description Of measured or predicted pairs, against runs here */
            running: components["schemas"]["ModelErrors"] | null;
            /** Words */
            words: string;
        };
        /**
         * EstimatorView
         * @description The program that computes the offline estimate (``expect.by``).
         */
        EstimatorView: {
            /**
             * State
             * @enum {string}
             */
            state: "waiting" | "done" | "failed";
            /** Command */
            command: string;
            /**
             * Fields
             * @description What it printed, as in expect
             */
            fields: {
                [key: string]: unknown;
            };
            /**
             * Warning
             * @description Why its answer is not used; empty: it is
             */
            warning: string;
            /** Took S */
            took_s: number;
            /**
             * Cached
             * @description Answer of an equal program for another job
             */
            cached: boolean;
        };
        /**
         * EvidenceView
         * @description Runs used as evidence.
         */
        EvidenceView: {
            /** Runs */
            runs: number;
            /** Of */
            of: string;
            /**
             * Jobs
             * @description The latest of them
             */
            jobs: string[];
            /** Uses */
            uses: components["schemas"]["UseView"][];
        };
        /**
         * FileRequest
         * @description A job file and the values of its parameters.
         */
        FileRequest: {
            file: components["schemas"]["JobFile"];
            /**
             * Params
             * @default {}
             */
            params: {
                [key: string]: string | number | boolean;
            };
        };
        /** ForecastPoint */
        ForecastPoint: {
            /** Job */
            job: string;
            /** Attempt */
            attempt: number;
            /** Tenant */
            tenant: string;
            /** Source */
            source: string;
            /** Ended S */
            ended_s: number;
            /** Predicted S */
            predicted_s: number;
            /**
             * High S
             * @description Nine of ten should have ended by then
             */
            high_s: number;
            /** Truth S */
            truth_s: number;
        };
        /**
         * FreeView
         * @description Every card is counted once, except ``usable``, which is part of ``free``.
         */
        FreeView: {
            /**
             * Gpus
             * @description Size of the requested gang
             */
            gpus: number;
            /** Total */
            total: number;
            /** Free */
            free: number;
            /**
             * Usable
             * @description Free cards that gangs of this size can use, each gang on one node
             */
            usable: number;
            /**
             * Gangs
             * @description Number of such gangs that fit now, each on one node
             */
            gangs: number;
            /**
             * Gangs Across
             * @description Number that would fit if a gang could use any cards
             */
            gangs_across: number;
            /**
             * Largest Block
             * @description Largest number of free cards on one node
             */
            largest_block: number;
            /** Busy */
            busy: number;
            /** Shared */
            shared: number;
            /**
             * Unhealthy
             * @description Faulty, until healthy again or cleared by an administrator
             */
            unhealthy: number;
            /**
             * Cordoned
             * @description Cordoned by an administrator
             */
            cordoned: number;
            /**
             * Drained
             * @description Idle, on a drained node
             */
            drained: number;
            /** Taken Outside */
            taken_outside: number;
        };
        /** GoalsView */
        GoalsView: {
            /** Since S */
            since_s: number;
            /** Until S */
            until_s: number;
            /**
             * Span S
             * @description Width of one interval in deadlines
             */
            span_s: number;
            /** Tenants */
            tenants: components["schemas"]["TenantGoals"][];
            /**
             * Jobs
             * @description At most 1,000, unfinished ones first
             */
            jobs: components["schemas"]["JobGoal"][];
            /** Deadlines */
            deadlines: components["schemas"]["DeadlinePoint"][];
            /**
             * Attainment
             * @description Of services, oldest first; at most 20,000 points
             */
            attainment: components["schemas"]["AttainmentPoint"][];
            /** Policies */
            policies: components["schemas"]["PolicyPoint"][];
            /** Truncated */
            truncated: boolean;
        };
        /**
         * GpuHours
         * @description All GPU-hours, each counted once.
         */
        GpuHours: {
            /**
             * Busy
             * @description Allocated, and a kernel ran: mean of samples, at most what was allocated
             */
            busy: number;
            /**
             * Reserved Idle
             * @description Allocated, and no kernel ran
             */
            reserved_idle: number;
            /**
             * Fragmented
             * @description Free while jobs were pending, but useless for the smallest pending gang: left over on a node, or all of it if the gang did not fit as a whole
             */
            fragmented: number;
            /**
             * Idle Waiting
             * @description Free while jobs were pending, and the smallest gang would have fitted
             */
            idle_waiting: number;
            /**
             * Idle
             * @description Free, with no pending jobs
             */
            idle: number;
            /**
             * Unhealthy
             * @description Cordoned or drained, by the audit log; or faulty, since a run was lost there. Repaired faults are not recorded
             */
            unhealthy: number;
            /**
             * Taken Outside
             * @description Free, but kernels ran: mean of samples beyond what was allocated
             */
            taken_outside: number;
            /**
             * Unknown
             * @description No samples of the card in that slot
             */
            unknown: number;
        };
        /**
         * HangWarning
         * @description Hang detection warns about the job now.
         */
        HangWarning: {
            /**
             * Rule
             * @description silent, spinning, stopped, nan, stuck, repeats, flood or overrun
             */
            rule: string;
            /**
             * Message
             * @description The evidence
             */
            message: string;
            /** Cure */
            cure: string;
            /**
             * Since S
             * @description Last sign of life, or start of the overrun
             */
            since_s: number;
            /** Warned S */
            warned_s: number;
            /**
             * Stops S
             * @description When it is stopped unless that ends; null: it is not
             */
            stops_s: number | null;
        };
        /**
         * HeadDelaysView
         * @description How much later heads of the queue started than if no job behind them had started before them.
         */
        HeadDelaysView: {
            /** Count */
            count: number;
            /** Delayed */
            delayed: number;
            /**
             * Median S
             * @description Of the delayed ones
             */
            median_s: number | null;
            /** Worst S */
            worst_s: number | null;
        };
        /** HealthView */
        HealthView: {
            /** Ok */
            ok: boolean;
            /** Reason */
            reason: string;
        };
        /** HeldView */
        HeldView: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description Share of each task; null: whole cards or none, or tasks request different shares */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /**
             * Eligible S
             * @description Its place in the queue counts from then: submission, release, last dependency or retry after a failure; null: held
             */
            eligible_s: number | null;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /**
             * Losses
             * @description Recent losses: attempts that ended by a fault of a card, with their node or processes, or could not start
             */
            losses: number;
            /**
             * Next Attempt S
             * @description Earliest time of the next attempt of a held job; null: none
             */
            next_attempt_s: number | null;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
            /**
             * Held S
             * @description When it was held; null: not known
             */
            held_s: number | null;
            reason: components["schemas"]["ShortReason"] | null;
        };
        /**
         * InboxEntry
         * @description A notice about a job, or the sum of many about the jobs of one batch. News replaces it by an entry with a larger
         *     id.
         */
        InboxEntry: {
            /** Id */
            id: number;
            /** Kind */
            kind: string;
            /**
             * Job
             * @description null: about several jobs
             */
            job: string | null;
            /**
             * Group
             * @description Batch of the jobs, if the entry is about one
             */
            group: string | null;
            /**
             * Name
             * @description Name of the job, or the common beginning of the names
             */
            name: string;
            /**
             * State
             * @description State of the job at that time; null: several jobs
             */
            state: string | null;
            /** @description Of several jobs: the newest one. null: none is known */
            reason: components["schemas"]["InboxReason"] | null;
            /**
             * Count
             * @description Notices in the entry
             */
            count: number;
            /**
             * Ends
             * @description Jobs by final state; null: one job, or not about ends
             */
            ends: {
                [key: string]: number;
            } | null;
            /**
             * Jobs
             * @description Jobs of the batch; null: one job, or no batch
             */
            jobs: number | null;
            /**
             * Failed
             * @description Some of the failed jobs of a batch, at most five
             */
            failed: components["schemas"]["InboxJob"][];
            /** Title */
            title: string;
            /**
             * Body
             * @description Plain text of several lines: what happened, why, and what to do
             */
            body: string;
            /**
             * First S
             * @description Time of its first notice
             */
            first_s: number;
            /**
             * At S
             * @description Time of its latest notice
             */
            at_s: number;
            /** Read */
            read: boolean;
        };
        /** InboxJob */
        InboxJob: {
            /** Id */
            id: string;
            /** Name */
            name: string;
        };
        /** InboxPage */
        InboxPage: {
            /** Items */
            items: components["schemas"]["InboxEntry"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
            /**
             * Unread
             * @description All unread entries of the caller
             */
            unread: number;
        };
        /** InboxReason */
        InboxReason: {
            /**
             * Code
             * @description For programs, for example exit_code, out_of_memory, timed_out or hang:silent
             */
            code: string;
            /** Text */
            text: string;
        };
        /** InterferenceView */
        InterferenceView: {
            /**
             * Sharing
             * @description How cards are shared here; null: interference is not used
             */
            sharing: string | null;
            /** Cards */
            cards: components["schemas"]["CardInterference"][];
            /**
             * Truncated
             * @description There are more workloads than shown: at most 64 per card
             */
            truncated: boolean;
        };
        /**
         * IntervalView
         * @description A mean with its 95 % confidence interval.
         */
        IntervalView: {
            /** Mean */
            mean: number;
            /** Low */
            low: number;
            /** High */
            high: number;
            /** Repeats */
            repeats: number;
        };
        /** JobDetail */
        JobDetail: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description Share of each task; null: whole cards or none, or tasks request different shares */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /**
             * Eligible S
             * @description Its place in the queue counts from then: submission, release, last dependency or retry after a failure; null: held
             */
            eligible_s: number | null;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /**
             * Losses
             * @description Recent losses: attempts that ended by a fault of a card, with their node or processes, or could not start
             */
            losses: number;
            /**
             * Next Attempt S
             * @description Earliest time of the next attempt of a held job; null: none
             */
            next_attempt_s: number | null;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
            slo: components["schemas"]["SloView"] | null;
            /**
             * Estimate S
             * @description Its user's estimate of the run time
             */
            estimate_s: number | null;
            /**
             * Limit S
             * @description Run time after which it is stopped
             */
            limit_s: number | null;
            /**
             * Held S
             * @description When it was held; null: it is not held
             */
            held_s: number | null;
            /**
             * Hang Warnings
             * @description Of a running job
             */
            hang_warnings: components["schemas"]["HangWarning"][];
            run_record: components["schemas"]["RunTimeRecord"] | null;
            /** Auto */
            auto: components["schemas"]["ChosenRequest"][];
            estimator: components["schemas"]["EstimatorView"] | null;
            used: components["schemas"]["UsedView"] | null;
        };
        /**
         * gpusquad job file
         * @description A job for gpusquad: what to run, which resources it needs, and how it is scheduled.
         *
         *     ${name} in a text or a number is replaced by a parameter; $${ is replaced by the characters ${.
         */
        JobFile: {
            /**
             * Gpus
             * @description Whole GPUs per task, or auto to choose the number from past runs.
             * @example 1
             * @example 8
             * @example auto
             */
            gpus?: number | "auto" | string | null;
            /**
             * Count
             * @description Number of identical tasks. They start together or not at all. Default: 1.
             * @example 1
             * @example 4
             */
            count?: number | string | null;
            /**
             * Min
             * @description Minimum number of tasks of an elastic job.
             * @example 2
             */
            min?: number | string | null;
            /**
             * Max
             * @description Maximum number of tasks of an elastic job.
             * @example 8
             */
            max?: number | string | null;
            /**
             * Share
             * @description Part of one GPU per task, instead of gpus.
             * @example {
             *       "memory": "10GiB",
             *       "sm": 0.25
             *     }
             */
            share?: components["schemas"]["ShareSpec"] | null;
            /**
             * CPU
             * @description CPU cores per task, or auto to choose them from past runs.
             * @example 4
             * @example 0.5
             * @example 500m
             * @example auto
             */
            cpu?: number | string | "auto" | null;
            /**
             * Memory
             * @description Main memory per task, or auto to choose it from past runs.
             * @example 16GiB
             * @example auto
             */
            memory?: number | string | "auto" | null;
            /**
             * GPU model
             * @description GPU model, or a list of allowed models.
             * @example H100
             * @example [
             *       "A100",
             *       "H100"
             *     ]
             */
            gpu_model?: string | string[] | null;
            /**
             * GPU memory
             * @description With gpus: minimum memory of each GPU, or auto to choose it from past runs.
             * @example 40GiB
             * @example auto
             */
            gpu_memory?: number | string | "auto" | null;
            /**
             * Card
             * @description ID of the card to use, with gpus: 1 or a share.
             * @example node-1/gpu-0
             */
            card?: string | null;
            /**
             * Name
             * @description Name of the job. It need not be unique.
             * @default
             * @example train-resnet
             */
            name: string;
            /**
             * Command
             * @description Command of each task: a list is executed directly, a text by /bin/sh -c.
             * @example [
             *       "python3",
             *       "train.py",
             *       "--lr",
             *       "0.1"
             *     ]
             * @example python3 train.py | tee out.txt
             */
            command?: string | string[] | null;
            /**
             * Roles
             * @description For a job whose tasks differ: resources and command of each kind of task. All start together.
             * @example [
             *       {
             *         "gpus": 4,
             *         "name": "learner"
             *       },
             *       {
             *         "count": 16,
             *         "cpu": 4,
             *         "name": "actor"
             *       }
             *     ]
             */
            roles?: components["schemas"]["RoleSpec"][] | null;
            /**
             * Image
             * @description Container image of the tasks, on Kubernetes. On one machine tasks are ordinary processes.
             * @default
             * @example pytorch/pytorch:latest
             */
            image: string;
            /**
             * Tenant
             * @description Tenant whose quota the job uses. Default: yours.
             * @default
             * @example vision
             */
            tenant: string;
            /**
             * Queue
             * @description Queue of the tenant.
             * @default
             * @example nightly
             */
            queue: string;
            /**
             * Priority
             * @description Priority class.
             * @default normal
             * @example normal
             * @example high
             */
            priority: ("low" | "normal" | "high" | "urgent") | number | string;
            /**
             * Lane
             * @description Lane of the job. Default: chosen by the lane rules.
             * @default
             * @example batch
             */
            lane: string;
            /**
             * App
             * @description Application name. Jobs with the same name share measurements and predictions.
             * @default
             * @example resnet50
             */
            app: string;
            /**
             * Estimate
             * @description Expected run time. Used for planning; it never stops the job.
             * @example 2h
             */
            estimate?: number | string | null;
            /**
             * Limit
             * @description Time limit. The job is stopped after it.
             * @example 4h
             */
            limit?: number | string | null;
            /**
             * SLO
             * @description SLO of the job.
             * @example {
             *       "p99": "20ms",
             *       "throughput": 100
             *     }
             */
            slo?: components["schemas"]["SloSpec"] | null;
            /**
             * Profile
             * @description Expected use of a GPU.
             * @example {
             *       "memory": "6GiB",
             *       "utilisation": 0.4
             *     }
             */
            profile?: components["schemas"]["ProfileSpec"] | null;
            /**
             * Expect
             * @description Offline estimate of run time and memory. A source of predictions, never a limit.
             * @example {
             *       "memory": "12GiB",
             *       "run": "2h",
             *       "run_high": "3h"
             *     }
             */
            expect?: components["schemas"]["OfflineEstimateSpec"] | null;
            /**
             * Checkpoint
             * @description How the job saves its state, and whether it may be preempted.
             * @example {
             *       "every": "10m",
             *       "grace": "30s"
             *     }
             */
            checkpoint?: components["schemas"]["CheckpointSpec"] | null;
            /**
             * Env
             * @description Environment variables of every task.
             * @example {
             *       "SEED": "1"
             *     }
             */
            env?: {
                [key: string]: string;
            };
            /**
             * Secrets
             * @description Secrets by name. Each becomes an environment variable of every task.
             * @default []
             * @example [
             *       "WANDB_API_KEY",
             *       {
             *         "as": "HF_TOKEN",
             *         "name": "hub-token"
             *       }
             *     ]
             */
            secrets: (string | components["schemas"]["SecretSpec"])[];
            /**
             * Workdir
             * @description Working directory of the tasks.
             * @default
             * @example /data/project
             */
            workdir: string;
            /**
             * After
             * @description Jobs that must end before this one starts.
             * @default []
             * @example [
             *       "prepare"
             *     ]
             * @example [
             *       {
             *         "job": "train",
             *         "on": "any"
             *       }
             *     ]
             */
            after: (string | components["schemas"]["DependencySpec"])[];
            /**
             * Retries
             * @description Maximum number of retries if the job does not succeed.
             * @example 3
             * @example {
             *       "backoff": "1m",
             *       "count": 3,
             *       "on": [
             *         "lost"
             *       ]
             *     }
             */
            retries?: number | string | components["schemas"]["RetrySpec"] | null;
            /**
             * Notify
             * @description Events on which to send you a notice.
             * @default []
             * @example [
             *       "succeeded",
             *       "failed"
             *     ]
             */
            notify: ("queued" | "started" | "finished" | "succeeded" | "failed" | "timed_out" | "cancelled" | "preempted" | "lost" | "held" | "retried" | "hung" | "overrun" | "delayed" | "eta_moved" | "start_late")[];
            /**
             * Version
             * @description Version of this format.
             * @default 1
             * @example 1
             * @constant
             */
            version: 1;
            /**
             * Params
             * @description Parameters with their defaults. One without a value must be set when the job is submitted.
             * @example {
             *       "lr": 0.1
             *     }
             */
            params?: {
                [key: string]: string | number | boolean | null;
            };
            /**
             * Sweep
             * @description Many jobs from one file: every combination of the lists. Lists under zip are combined element by element; a list of points is used as given. ${sweep.index} is the index of the point, from 0.
             * @example {
             *       "lr": [
             *         0.1,
             *         0.01
             *       ],
             *       "seed": [
             *         1,
             *         2,
             *         3
             *       ]
             *     }
             * @example {
             *       "zip": {
             *         "lr": [
             *           0.1,
             *           0.01
             *         ],
             *         "steps": [
             *           10,
             *           100
             *         ]
             *       }
             *     }
             * @example [
             *       {
             *         "lr": 1
             *       }
             *     ]
             */
            sweep?: ({
                /** @description Lists that are combined element by element. */
                zip?: {
                    [key: string]: (string | number | boolean)[];
                } | (string | number | boolean)[];
            } & {
                [key: string]: (string | number | boolean)[];
            }) | {
                [key: string]: string | number | boolean;
            }[] | null;
        };
        /**
         * JobGoal
         * @description A job with an SLO.
         */
        JobGoal: {
            /** Job */
            job: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** State */
            state: string;
            goal: components["schemas"]["SloTargets"];
            /**
             * Deadline Met
             * @description null: no deadline, or not reached yet
             */
            deadline_met: boolean | null;
            /**
             * Attainment Ratio
             * @description Current attainment of a service's SLO, as the card daemon reports it; null: unknown, because nobody reports it or its card is not shared
             */
            attainment_ratio: number | null;
            /**
             * Weight
             * @description Weight among its neighbours, if its card is divided
             */
            weight: number | null;
        };
        /** JobPage */
        JobPage: {
            /** Items */
            items: components["schemas"]["JobView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** JobShare */
        JobShare: {
            /**
             * Sm
             * @description Guaranteed fraction of the SMs; null: none
             */
            sm: number | null;
            /**
             * Memory
             * @description Bytes, or a percentage of the card's memory; null: not set
             */
            memory: number | string | null;
            /**
             * Isolation
             * @description shared or isolated
             */
            isolation: string;
        };
        /**
         * JobSource
         * @description The job as it was accepted.
         */
        JobSource: {
            /** Spec */
            spec: {
                [key: string]: unknown;
            };
        };
        /** JobView */
        JobView: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description Share of each task; null: whole cards or none, or tasks request different shares */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /**
             * Eligible S
             * @description Its place in the queue counts from then: submission, release, last dependency or retry after a failure; null: held
             */
            eligible_s: number | null;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /**
             * Losses
             * @description Recent losses: attempts that ended by a fault of a card, with their node or processes, or could not start
             */
            losses: number;
            /**
             * Next Attempt S
             * @description Earliest time of the next attempt of a held job; null: none
             */
            next_attempt_s: number | null;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
        };
        /**
         * LaneRequest
         * @description A lane and the rule that assigns jobs to it.
         */
        LaneRequest: {
            /** Name */
            name: string;
            /**
             * Min Gpus
             * @description Total GPUs of the job, inclusive
             * @default 0
             */
            min_gpus: number;
            /** Max Gpus */
            max_gpus?: number | null;
            /**
             * Tenants
             * @description Empty: all
             * @default []
             */
            tenants: string[];
            /**
             * Priorities
             * @description Names or integers; empty: all
             * @default []
             */
            priorities: (string | number)[];
            /**
             * Preemptible
             * @description Whether its running jobs may be preempted
             * @default true
             */
            preemptible: boolean;
            /**
             * Max Lost S
             * @description Preempt only jobs that can be suspended or whose last checkpoint is at most this old
             */
            max_lost_s?: number | null;
            /**
             * Limit Ratio
             * @description Fraction of all GPUs that the lane may hold at most
             * @default 1
             */
            limit_ratio: number;
        };
        /** LaneView */
        LaneView: {
            /** Name */
            name: string;
            /** Min Gpus */
            min_gpus: number;
            /** Max Gpus */
            max_gpus: number | null;
            /** Tenants */
            tenants: string[];
            /** Priorities */
            priorities: string[];
            /** Preemptible */
            preemptible: boolean;
            /** Max Lost S */
            max_lost_s: number | null;
            /** Limit Ratio */
            limit_ratio: number;
        };
        /** LateCause */
        LateCause: {
            /**
             * Cause
             * @description guest_overstayed, ahead_overran, arrived_ahead, requeued_ahead, capacity_lost, policy_changed, changed, restarted or other
             */
            cause: string;
            /** Count */
            count: number;
            /** Median S */
            median_s: number | null;
            /** Worst S */
            worst_s: number | null;
        };
        /** LateStart */
        LateStart: {
            /** Job */
            job: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Promised S */
            promised_s: number | null;
            /** Started S */
            started_s: number | null;
            /** Late S */
            late_s: number;
            /**
             * Head Delay S
             * @description True head delay; null: it was not followed as the head
             */
            head_delay_s: number | null;
            /** Cause */
            cause: string;
            /**
             * Cause Job
             * @description The job that delayed it most; null: none, or not visible to the caller
             */
            cause_job: string | null;
            /** Cause User */
            cause_user: string | null;
            /** Cause Tenant */
            cause_tenant: string | null;
        };
        /** LogPart */
        LogPart: {
            /** Task */
            task: number;
            /** Attempt */
            attempt: number;
            /** Offset */
            offset: number;
            /** Next */
            next: number;
            /** Text */
            text: string;
            /**
             * End
             * @description Nothing more will follow
             */
            end: boolean;
        };
        /** Me */
        Me: {
            /** User */
            user: string;
            /** Tenant */
            tenant: string;
            /**
             * Role
             * @enum {string}
             */
            role: "admin" | "member" | "viewer";
            /** Scopes */
            scopes: string[];
            /** Is Admin */
            is_admin: boolean;
            /**
             * Max Priority
             * @description Highest priority of the caller's jobs; null: any
             */
            max_priority: string | null;
            /**
             * May Choose Lane
             * @description Whether the caller may choose the lane of a job
             */
            may_choose_lane: boolean;
            token: components["schemas"]["TokenFacts"];
        };
        /**
         * ModelErrors
         * @description |predicted - actual| relative to the actual value.
         */
        ModelErrors: {
            /** Count */
            count: number;
            /** Median */
            median: number;
            /** P90 */
            p90: number;
            /** Mean */
            mean: number;
            /**
             * Bias
             * @description Signed mean: above 0, the prediction is too fast
             */
            bias: number;
        };
        /**
         * MovedStart
         * @description Start now, and with the other policies.
         */
        MovedStart: {
            /** Job */
            job: string;
            /** Before S */
            before_s: number | null;
            /** After S */
            after_s: number | null;
        };
        /**
         * NeighbourView
         * @description Another job on the same card; of other tenants only that there is one, and its effect.
         */
        NeighbourView: {
            /** Job */
            job: string | null;
            /** Name */
            name: string | null;
            /** User */
            user: string | null;
            /** App */
            app: string | null;
            /**
             * Sm Ratio
             * @description Its fraction of the SMs; null: no limit
             */
            sm_ratio: number | null;
            /** Memory Bytes */
            memory_bytes: number | null;
            /**
             * Speed Ratio
             * @description Rate of this job beside it alone; null: unknown
             */
            speed_ratio: number | null;
            /** Basis */
            basis: string | null;
        };
        /** NeighboursView */
        NeighboursView: {
            /** Job */
            job: string;
            /**
             * Cards
             * @description Empty: on no cards now
             */
            cards: components["schemas"]["SharedCard"][];
            /**
             * Expected Ratio
             * @description Of the slowest card: a gang is as fast as its slowest task
             */
            expected_ratio: number | null;
            /** Expected Slowdown */
            expected_slowdown: number | null;
            /**
             * Observed Ratio
             * @description Its step rate since its neighbours last changed, over that of such runs alone; null: unknown
             */
            observed_ratio: number | null;
            /** Observed Slowdown */
            observed_slowdown: number | null;
            /** Steps Per S */
            steps_per_s: number | null;
            /** Alone Steps Per S */
            alone_steps_per_s: number | null;
        };
        /** NewTenant */
        NewTenant: {
            /**
             * Weight
             * @default 1
             */
            weight: number;
            /** Guaranteed Gpus */
            guaranteed_gpus?: number | null;
            /** Limit Gpus */
            limit_gpus?: number | null;
            /**
             * Reclaim S
             * @default 0
             */
            reclaim_s: number;
            /** Max Pending */
            max_pending?: number | null;
            /**
             * On Hang
             * @default stop
             * @enum {string}
             */
            on_hang: "warn" | "stop";
            /**
             * Run As
             * @description UID:GID of its tasks, if the service runs as root
             */
            run_as?: string | null;
            /**
             * Max Priority
             * @description Highest priority of its users' jobs, by name or as an integer. Administrators have none
             * @default normal
             */
            max_priority: string | number;
            /**
             * May Choose Lane
             * @description Whether its users may choose the lane of a job
             * @default false
             */
            may_choose_lane: boolean;
            /**
             * Urgent Gpu Hours
             * @description GPU-hours per 30 days of its runs with priorities above high; null: no budget
             */
            urgent_gpu_hours?: number | null;
            /** Name */
            name: string;
        };
        /** NewToken */
        NewToken: {
            /** Id */
            id: string;
            /** User */
            user: string;
            /** Label */
            label: string;
            /** Scopes */
            scopes: string[];
            /** Created S */
            created_s: number;
            /** Expires S */
            expires_s: number | null;
            /** Revoked S */
            revoked_s: number | null;
            /** Last Used S */
            last_used_s: number | null;
            /**
             * Token
             * @description Shown only once
             */
            token: string;
        };
        /** NewUser */
        NewUser: {
            /**
             * Tenant
             * @default default
             */
            tenant: string;
            /**
             * Role
             * @default member
             * @enum {string}
             */
            role: "admin" | "member" | "viewer";
            /**
             * Disabled
             * @default false
             */
            disabled: boolean;
            /**
             * Max Priority
             * @description Highest priority of the user's jobs, by name or as an integer; null: that of the tenant
             */
            max_priority?: string | number | null;
            /**
             * May Choose Lane
             * @description Whether the user may choose the lane of a job; null: as the tenant
             */
            may_choose_lane?: boolean | null;
            /** Name */
            name: string;
        };
        /** NodeHours */
        NodeHours: {
            /** Node */
            node: string;
            hours: components["schemas"]["GpuHours"];
        };
        /** NodePage */
        NodePage: {
            /** Items */
            items: components["schemas"]["NodeView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** NodeView */
        NodeView: {
            /** Id */
            id: string;
            /** Rack */
            rack: string;
            /** Up */
            up: boolean;
            /** Drained */
            drained: boolean;
            /** Cpu Milli */
            cpu_milli: number;
            /** Cpu Free Milli */
            cpu_free_milli: number;
            /** Memory Bytes */
            memory_bytes: number;
            /** Memory Free Bytes */
            memory_free_bytes: number;
            /** Cards */
            cards: components["schemas"]["CardView"][];
            /** Windows */
            windows: components["schemas"]["WindowView"][];
        };
        /** NoticePage */
        NoticePage: {
            /** Items */
            items: components["schemas"]["NoticeView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** NoticeView */
        NoticeView: {
            /** Id */
            id: number;
            /** Rule */
            rule: number;
            /** Job */
            job: string;
            /** Kind */
            kind: string;
            /** Title */
            title: string;
            /** Tries */
            tries: number;
            /** Next S */
            next_s: number;
            /** State */
            state: string;
            /** Error */
            error: string;
            /** Created S */
            created_s: number;
        };
        /**
         * OfflineEstimate
         * @description Offline estimate of run time and memory, for example from gpusquad.estimate.
         */
        OfflineEstimateSpec: {
            /**
             * Run
             * @description Median run time.
             * @example 2h
             */
            run?: number | string | null;
            /**
             * Run high
             * @description 90th percentile of the run time.
             * @example 3h
             */
            run_high?: number | string | null;
            /**
             * Memory
             * @description Peak memory on one GPU.
             * @example 12GiB
             */
            memory?: number | string | null;
            /**
             * By gpus
             * @description Run time by total number of GPUs.
             * @example {
             *       "1": "8h",
             *       "2": "4.5h",
             *       "4": "3h"
             *     }
             */
            by_gpus?: {
                [key: string]: number | string;
            } | null;
            /**
             * CPU
             * @description CPU cores that one task uses.
             * @example 4
             */
            cpu?: number | string | null;
            /**
             * Host memory
             * @description Peak main memory of one task.
             * @example 24GiB
             */
            host_memory?: number | string | null;
            /**
             * By
             * @description Program that computes these fields before the job is queued. It runs in the environment of the job, without a GPU, and prints one JSON object.
             * @example python3 estimate.py
             * @example [
             *       "python3",
             *       "estimate.py",
             *       "--model",
             *       "vgg16"
             *     ]
             */
            by?: string | string[] | null;
            /**
             * Timeout
             * @description Time limit of that program. Default: 60s; at most 10m.
             * @example 2m
             */
            timeout?: number | string | null;
        };
        /**
         * PairView
         * @description Rate of a workload beside another, both unrestricted. Not symmetric.
         */
        PairView: {
            /** Own */
            own: string;
            /** Other */
            other: string;
            /**
             * Speed Ratio
             * @description Speed beside it over speed alone; 0: they do not fit together
             */
            speed_ratio: number;
            /**
             * Slowdown
             * @description Time over time alone; null: they do not fit together
             */
            slowdown: number | null;
            /**
             * Spread
             * @description Usual error of the ratio: one standard deviation
             */
            spread: number;
            /**
             * Source
             * @description learned: measured or predicted, then corrected by runs here
             * @enum {string}
             */
            source: "measured" | "learned" | "predicted";
            /**
             * Basis
             * @description Basis of the value: measured, rows and columns, features, default
             */
            basis: string;
            /**
             * Watched S
             * @description Observed time of such runs
             */
            watched_s: number;
        };
        /**
         * PassedView
         * @description A job submitted later that went ahead by a right.
         */
        PassedView: {
            /** Job */
            job: string;
            /** User */
            user: string;
            /** Tenant */
            tenant: string;
            /** Running */
            running: boolean;
            /**
             * By
             * @enum {string}
             */
            by: "priority" | "guarantee" | "lane" | "wait limit" | "fair share";
            /**
             * Value
             * @description The priority, the lane, or why its tenant goes first
             */
            value: string;
            /**
             * Granted
             * @description Who has the right, and from whom
             */
            granted: string;
            /** Message */
            message: string;
        };
        /**
         * PeakView
         * @description Predicted peak memory on one card.
         */
        PeakView: {
            /** Mid Bytes */
            mid_bytes: number;
            /**
             * High Bytes
             * @description Nine runs of ten hold at most this
             */
            high_bytes: number;
            /** Source */
            source: string;
            /** Confidence */
            confidence: number;
        };
        /**
         * PlannedBar
         * @description A pending job as replaying the plan starts it. A forecast, not a reservation.
         */
        PlannedBar: {
            /**
             * Job
             * @description null: a job of another tenant
             */
            job: string | null;
            /** Name */
            name: string | null;
            /** Tenant */
            tenant: string | null;
            /** Gpus */
            gpus: number;
            /** Position */
            position: number;
            /** Start S */
            start_s: number;
            /**
             * Start High S
             * @description Start in nine of ten cases; null: not known
             */
            start_high_s: number | null;
            /** End S */
            end_s: number | null;
            /** End High S */
            end_high_s: number | null;
            /** Cards */
            cards: string[];
        };
        /**
         * PolicyPoint
         * @description Policies in use from then on.
         */
        PolicyPoint: {
            /** At S */
            at_s: number;
            /** Revision */
            revision: number;
            /** Mode */
            mode: string | null;
            /** Settings */
            settings: {
                [key: string]: unknown;
            };
        };
        /**
         * PolicyRequest
         * @description Settings to change; others stay as in the mode.
         */
        PolicyRequest: {
            /** Mode */
            mode?: string | null;
            /** Order */
            order?: string | null;
            /** Plan */
            plan?: string | null;
            /** Place */
            place?: string | null;
            preemption?: components["schemas"]["PreemptionRequest"] | null;
            /**
             * Lanes
             * @description All lanes, in order: the first rule that matches decides
             */
            lanes?: components["schemas"]["LaneRequest"][] | null;
            /**
             * Preemptible
             * @description Names of the lanes whose running jobs may be preempted; others may not
             */
            preemptible?: string[] | null;
            /**
             * Note
             * @default
             */
            note: string;
        };
        /** PolicyView */
        PolicyView: {
            /** Revision */
            revision: number;
            /** Mode */
            mode: string;
            /** Order */
            order: string;
            /** Plan */
            plan: string;
            /** Place */
            place: string;
            /**
             * Divide
             * @description Divide policy of shared cards without a setting of their own
             */
            divide: string;
            /** Preemption */
            preemption: {
                [key: string]: unknown;
            };
            /** @description What an automatic mode chose; null if the mode is pinned */
            automatic: components["schemas"]["AutomaticView"] | null;
            /** Lanes */
            lanes: components["schemas"]["LaneView"][];
            /** Modes */
            modes: string[];
            /** Since S */
            since_s: number;
            /** By */
            by: string;
            /** Note */
            note: string;
        };
        /** PredictionPoint */
        PredictionPoint: {
            /** Source */
            source: string;
            /** Predicted S */
            predicted_s: number;
            /** Truth S */
            truth_s: number;
        };
        /** PredictionSeriesView */
        PredictionSeriesView: {
            /** Since S */
            since_s: number;
            /** Until S */
            until_s: number;
            /** Span S */
            span_s: number;
            /**
             * Count
             * @description Runs used: the newest 50,000 at most
             */
            count: number;
            /**
             * Truncated
             * @description There are more: the time before the first point is not covered
             */
            truncated: boolean;
            /** Lines */
            lines: components["schemas"]["CrossLine"][];
            /** Series */
            series: components["schemas"]["SeriesPoint"][];
            /**
             * Points
             * @description Evenly spread over time; 2,000 at most
             */
            points: components["schemas"]["ForecastPoint"][];
        };
        /** PredictionsView */
        PredictionsView: {
            /** Since S */
            since_s: number;
            /**
             * Count
             * @description Runs used: the newest 50,000 at most
             */
            count: number;
            /** Tenants */
            tenants: components["schemas"]["ErrorLine"][];
            /** Sources */
            sources: components["schemas"]["ErrorLine"][];
            /** Calibration */
            calibration: components["schemas"]["CalibrationPoint"][];
            /** Points */
            points: components["schemas"]["PredictionPoint"][];
            starts: components["schemas"]["StartsView"];
            waits: components["schemas"]["WaitsView"];
        };
        /** PreemptionRequest */
        PreemptionRequest: {
            /** By */
            by?: string | null;
            /** Min Run S */
            min_run_s?: number | null;
            /** Most Per Job */
            most_per_job?: number | null;
            /**
             * Overstay
             * @description Backfilled jobs to preempt when they outlive their time: never, checkpointed, always
             */
            overstay?: string | null;
        };
        /** PreviewView */
        PreviewView: {
            /** Starts */
            starts: string[];
            /** Preempted */
            preempted: string[];
            /** Moved */
            moved: components["schemas"]["MovedStart"][];
        };
        /**
         * Profile
         * @description Expected use of a GPU. A hint for placement, not a limit.
         */
        ProfileSpec: {
            /**
             * Utilisation
             * @description Fraction of the time in which the GPU is busy.
             * @example 0.4
             * @example 40%
             */
            utilisation?: number | string | null;
            /**
             * Memory
             * @description GPU memory that the job uses.
             * @example 6GiB
             */
            memory?: number | string | null;
            /**
             * Bandwidth
             * @description Fraction of the memory bandwidth that the job uses.
             * @example 0.3
             */
            bandwidth?: number | string | null;
            /**
             * Source
             * @description Origin of these numbers.
             * @default declared
             * @example measured
             * @enum {string}
             */
            source: "declared" | "measured" | "predicted";
        };
        /** Progress */
        Progress: {
            /** Step */
            step: number | null;
            /** Total */
            total: number | null;
            /** Ratio */
            ratio: number | null;
            /** At S */
            at_s: number | null;
        };
        /** QueuePage */
        QueuePage: {
            /** Items */
            items: components["schemas"]["QueuedView"][];
            /**
             * Running
             * @description On the first page only
             */
            running: components["schemas"]["RunningView"][];
            /**
             * Held
             * @description Jobs that the service holds, oldest first: suspected, or waiting for their next attempt or estimator. Not those held by users or waiting for other jobs. On the first page only
             */
            held: components["schemas"]["HeldView"][];
            /** Counts */
            counts: {
                [key: string]: number;
            };
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** QueuedView */
        QueuedView: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description Share of each task; null: whole cards or none, or tasks request different shares */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /**
             * Eligible S
             * @description Its place in the queue counts from then: submission, release, last dependency or retry after a failure; null: held
             */
            eligible_s: number | null;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /**
             * Losses
             * @description Recent losses: attempts that ended by a fault of a card, with their node or processes, or could not start
             */
            losses: number;
            /**
             * Next Attempt S
             * @description Earliest time of the next attempt of a held job; null: none
             */
            next_attempt_s: number | null;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
            /** Position */
            position: number;
            /**
             * Eta S
             * @description Forecast start, as start_s of when; null: not known
             */
            eta_s: number | null;
            /**
             * Eta High S
             * @description Start in nine of ten cases; null if only eta_s is known
             */
            eta_high_s: number | null;
            /**
             * Promised S
             * @description Latest start by its first reservation; null: it has none
             */
            promised_s: number | null;
            reason: components["schemas"]["ShortReason"] | null;
        };
        /**
         * ReadRequest
         * @description Entries to mark as read: the listed ones, and all up to an id.
         */
        ReadRequest: {
            /** Ids */
            ids?: number[];
            /** Up To */
            up_to?: number | null;
        };
        /** ReadResult */
        ReadResult: {
            /** Marked */
            marked: number;
            /** Unread */
            unread: number;
        };
        /** ReasonView */
        ReasonView: {
            /** Code */
            code: string;
            /** Message */
            message: string;
            /** Cure */
            cure: string;
            /** Numbers */
            numbers: {
                [key: string]: number | null;
            };
            /** Who */
            who: string[];
        };
        /** RecommendView */
        RecommendView: {
            /** Advice */
            advice: components["schemas"]["AdviceLine"][];
            /** Times */
            times: components["schemas"]["TimesView"][];
            memory: components["schemas"]["PeakView"] | null;
            /** @description null: no such run is known */
            evidence: components["schemas"]["EvidenceView"] | null;
            /** Notes */
            notes: string[];
            /** Warnings */
            warnings: string[];
            /**
             * Missing
             * @description What would give evidence where there is none
             */
            missing: string[];
            /**
             * Jobs
             * @description Number of jobs in the file; the answer is about the first
             */
            jobs: number;
        };
        /**
         * ReservationView
         * @description A reserved start of a pending job.
         */
        ReservationView: {
            /**
             * Job
             * @description null: a job of another tenant
             */
            job: string | null;
            /** Name */
            name: string | null;
            /** Tenant */
            tenant: string | null;
            /** Gpus */
            gpus: number;
            /** Start S */
            start_s: number;
            /**
             * Latest S
             * @description First reserved start, from pessimistic run times
             */
            latest_s: number;
            /** End S */
            end_s: number | null;
            /**
             * Cards
             * @description Empty if only a number of cards is reserved
             */
            cards: string[];
        };
        /**
         * Retry
         * @description Whether and when a failed job is retried.
         */
        RetrySpec: {
            /**
             * Count
             * @description Maximum number of retries.
             * @example 3
             */
            count: number | string;
            /**
             * Backoff
             * @description Wait time before a retry.
             * @default 10s
             * @example 10s
             * @example 1m
             */
            backoff: number | string;
            /**
             * On
             * @description Outcomes that cause a retry: failed (a task failed), lost (node or end of the run not seen).
             * @default [
             *       "failed",
             *       "lost"
             *     ]
             * @example [
             *       "lost"
             *     ]
             * @example [
             *       "failed",
             *       "lost"
             *     ]
             */
            on: ("failed" | "lost")[];
        };
        /** Revision */
        Revision: {
            /** Revision */
            revision: number;
            /** At S */
            at_s: number;
            /** By */
            by: string;
            /** Settings */
            settings: {
                [key: string]: unknown;
            };
            /** Note */
            note: string;
        };
        /** RevisionPage */
        RevisionPage: {
            /** Items */
            items: components["schemas"]["Revision"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /**
         * Role
         * @description Identical tasks of a job: same command, same resources.
         */
        RoleSpec: {
            /**
             * Gpus
             * @description Whole GPUs per task, or auto to choose the number from past runs.
             * @example 1
             * @example 8
             * @example auto
             */
            gpus?: number | "auto" | string | null;
            /**
             * Count
             * @description Number of identical tasks. They start together or not at all. Default: 1.
             * @example 1
             * @example 4
             */
            count?: number | string | null;
            /**
             * Min
             * @description Minimum number of tasks of an elastic job.
             * @example 2
             */
            min?: number | string | null;
            /**
             * Max
             * @description Maximum number of tasks of an elastic job.
             * @example 8
             */
            max?: number | string | null;
            /**
             * Share
             * @description Part of one GPU per task, instead of gpus.
             * @example {
             *       "memory": "10GiB",
             *       "sm": 0.25
             *     }
             */
            share?: components["schemas"]["ShareSpec"] | null;
            /**
             * CPU
             * @description CPU cores per task, or auto to choose them from past runs.
             * @example 4
             * @example 0.5
             * @example 500m
             * @example auto
             */
            cpu?: number | string | "auto" | null;
            /**
             * Memory
             * @description Main memory per task, or auto to choose it from past runs.
             * @example 16GiB
             * @example auto
             */
            memory?: number | string | "auto" | null;
            /**
             * GPU model
             * @description GPU model, or a list of allowed models.
             * @example H100
             * @example [
             *       "A100",
             *       "H100"
             *     ]
             */
            gpu_model?: string | string[] | null;
            /**
             * GPU memory
             * @description With gpus: minimum memory of each GPU, or auto to choose it from past runs.
             * @example 40GiB
             * @example auto
             */
            gpu_memory?: number | string | "auto" | null;
            /**
             * Card
             * @description ID of the card to use, with gpus: 1 or a share.
             * @example node-1/gpu-0
             */
            card?: string | null;
            /**
             * Name
             * @description Name of the role.
             * @example worker
             */
            name: string;
            /**
             * Command
             * @description Command of these tasks. Default: the command of the job.
             * @example [
             *       "python3",
             *       "worker.py"
             *     ]
             */
            command?: string | string[] | null;
            /**
             * Env
             * @description Environment variables of these tasks, in addition to those of the job.
             * @example {
             *       "OMP_NUM_THREADS": "4"
             *     }
             */
            env?: {
                [key: string]: string;
            };
        };
        /** RulePage */
        RulePage: {
            /** Items */
            items: components["schemas"]["RuleView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** RuleRequest */
        RuleRequest: {
            /** Kinds */
            kinds: string[];
            /** Url */
            url: string;
            /**
             * Label
             * @default
             */
            label: string;
        };
        /** RuleView */
        RuleView: {
            /** Id */
            id: number;
            /** User */
            user: string;
            /** Kinds */
            kinds: string[];
            /**
             * Url
             * @description Without its secrets
             */
            url: string;
            /** Label */
            label: string;
            /** Created S */
            created_s: number;
        };
        /**
         * RunForecast
         * @description Predicted run time.
         */
        RunForecast: {
            /** Mid S */
            mid_s: number | null;
            /** High S */
            high_s: number | null;
            /** Source */
            source: string;
            /**
             * Confidence
             * @description 0: a guess. 1: as good as measured. null: unknown
             */
            confidence: number | null;
        };
        /**
         * RunTimeRecord
         * @description Accuracy of the latest such predictions for the job's tenant.
         */
        RunTimeRecord: {
            /** Count */
            count: number;
            /**
             * Within Ratio
             * @description Fraction that ended by the predicted P90
             */
            within_ratio: number;
            /**
             * Median Ratio
             * @description Median error relative to the actual run time
             */
            median_ratio: number;
        };
        /** RunningView */
        RunningView: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description Share of each task; null: whole cards or none, or tasks request different shares */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /**
             * Eligible S
             * @description Its place in the queue counts from then: submission, release, last dependency or retry after a failure; null: held
             */
            eligible_s: number | null;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /**
             * Losses
             * @description Recent losses: attempts that ended by a fault of a card, with their node or processes, or could not start
             */
            losses: number;
            /**
             * Next Attempt S
             * @description Earliest time of the next attempt of a held job; null: none
             */
            next_attempt_s: number | null;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
            /** @description As in when; null: not known */
            end: components["schemas"]["End"] | null;
            /** Hang Warnings */
            hang_warnings: components["schemas"]["HangWarning"][];
        };
        /** SamplePage */
        SamplePage: {
            /** Items */
            items: components["schemas"]["SampleView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /**
         * SampleView
         * @description One sample of a card, or the means over a span. null: unknown.
         */
        SampleView: {
            /** At S */
            at_s: number;
            /** Utilisation Ratio */
            utilisation_ratio: number | null;
            /** Memory Utilisation Ratio */
            memory_utilisation_ratio: number | null;
            /** Memory Used Bytes */
            memory_used_bytes: number | null;
            /** Power W */
            power_w: number | null;
            /** Temperature C */
            temperature_c: number | null;
            /** Sm Clock Mhz */
            sm_clock_mhz: number | null;
        };
        /** SecretPage */
        SecretPage: {
            /** Items */
            items: components["schemas"]["SecretView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** SecretRequest */
        SecretRequest: {
            /** Value */
            value: string;
        };
        /**
         * Secret
         * @description A secret by name. The service stores its value; a job file never contains it.
         */
        SecretSpec: {
            /**
             * Name
             * @description Name of the secret in the service.
             * @example wandb-key
             */
            name: string;
            /**
             * Variable
             * @description Environment variable that holds the value. Default: the name of the secret.
             * @example WANDB_API_KEY
             */
            as?: string | null;
        };
        /** SecretView */
        SecretView: {
            /** Name */
            name: string;
        };
        /** SelfTestView */
        SelfTestView: {
            /** At S */
            at_s: number;
            /**
             * Passed
             * @description null: it cannot be tested on its node
             */
            passed: boolean | null;
            /** Detail */
            detail: string;
            /** Took S */
            took_s: number;
        };
        /**
         * SeriesPoint
         * @description Runs of one source that ended within a span. Spans without runs are left out.
         */
        SeriesPoint: {
            /** At S */
            at_s: number;
            /** Source */
            source: string;
            /** Count */
            count: number;
            /** Median Ratio */
            median_ratio: number | null;
            /** Within P90 */
            within_p90: number | null;
            /** Bias */
            bias: number | null;
        };
        /**
         * Share
         * @description Request for part of one GPU.
         */
        ShareSpec: {
            /**
             * Memory
             * @description Memory quota of the task on its GPU: amount or percentage. Default: the same fraction as sm.
             * @example 10GiB
             * @example 8GB
             * @example 30%
             */
            memory?: number | string | null;
            /**
             * SM
             * @description Guaranteed fraction of the GPU's SMs. Default: none, the task uses what is idle.
             * @example 0.25
             * @example 25%
             */
            sm?: number | string | null;
            /**
             * Isolation
             * @description shared: concurrent with other jobs, whose GPU faults can end this one; isolated: time-sliced.
             * @default shared
             * @example isolated
             * @enum {string}
             */
            isolation: "shared" | "isolated";
        };
        /** SharedCard */
        SharedCard: {
            /** Card */
            card: string;
            /** Node */
            node: string;
            /** Gpu */
            gpu: string;
            /** Neighbours */
            neighbours: components["schemas"]["NeighbourView"][];
            /**
             * Speed Ratio
             * @description Predicted rate beside all of them; null: unknown
             */
            speed_ratio: number | null;
        };
        /** ShortReason */
        ShortReason: {
            /** Code */
            code: string;
            /** Message */
            message: string;
        };
        /**
         * Slo
         * @description SLO: a deadline for a batch job; latency, throughput and availability for a service.
         */
        SloSpec: {
            /**
             * Deadline
             * @description Time from submission by which the job should end.
             * @example 6h
             */
            deadline?: number | string | null;
            /**
             * Latency
             * @description Target for the 99th percentile of request latency. p99 is another name.
             * @example 20ms
             */
            latency?: number | string | null;
            /**
             * Throughput
             * @description Target for requests or steps per second.
             * @example 100
             * @example 100/s
             */
            throughput?: number | string | null;
            /**
             * Availability
             * @description Target fraction of the time in which the service answers.
             * @example 99.9%
             * @example 0.999
             */
            availability?: number | string | null;
        };
        /**
         * SloTargets
         * @description Targets of a job's SLO; null: not part of it.
         */
        SloTargets: {
            /**
             * Deadline S
             * @description Unix time
             */
            deadline_s: number | null;
            /** Latency S */
            latency_s: number | null;
            /** Throughput Per S */
            throughput_per_s: number | null;
            /** Availability Ratio */
            availability_ratio: number | null;
        };
        /**
         * SloView
         * @description Goals of the job; null: not set. Its state is that of ``GET /goals``.
         */
        SloView: {
            /** Deadline S */
            deadline_s: number | null;
            /** Latency S */
            latency_s: number | null;
            /**
             * Throughput
             * @description Requests or steps per second
             */
            throughput: number | null;
            /**
             * Availability
             * @description Fraction of requests within the latency
             */
            availability: number | null;
            /**
             * Deadline Met
             * @description null: no deadline, or not reached yet
             */
            deadline_met: boolean | null;
            /**
             * Attainment Ratio
             * @description Of the other targets, while it runs; null: unknown, or none
             */
            attainment_ratio: number | null;
            /**
             * Unknown
             * @description It runs with other targets, and their attainment is not reported
             */
            unknown: boolean;
        };
        /**
         * SoloView
         * @description A workload alone on a card.
         */
        SoloView: {
            steps_per_s: components["schemas"]["IntervalView"];
            /** Curve */
            curve: components["schemas"]["CurvePoint"][];
            /** Utilisation Ratio */
            utilisation_ratio: number;
            /** Bandwidth Ratio */
            bandwidth_ratio: number;
            /** Memory Bytes */
            memory_bytes: number;
            /** Power W */
            power_w: number;
        };
        /**
         * StartsView
         * @description Starts of jobs that had a reservation, compared with the start that was promised first.
         */
        StartsView: {
            /** Count */
            count: number;
            /** Kept */
            kept: number;
            /**
             * Late
             * @description By more than a second
             */
            late: number;
            /**
             * Median S
             * @description How late, of the late ones
             */
            median_s: number | null;
            /** Worst S */
            worst_s: number | null;
            /** Causes */
            causes: components["schemas"]["LateCause"][];
            /**
             * Latest
             * @description The latest starts, at most 20
             */
            latest: components["schemas"]["LateStart"][];
            heads: components["schemas"]["HeadDelaysView"];
        };
        /** Story */
        Story: {
            /** Items */
            items: components["schemas"]["StoryLine"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** StoryLine */
        StoryLine: {
            /** Id */
            id: number;
            /** At S */
            at_s: number;
            /** Kind */
            kind: string;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Cause */
            cause: string;
            /** Actor */
            actor: string;
            /** Data */
            data: unknown;
        };
        /**
         * StrangerNow
         * @description Deprecated name of ``UnmanagedNow``.
         */
        StrangerNow: {
            /** Pid */
            pid: number;
            /** Name */
            name: string;
            /** Memory Bytes */
            memory_bytes: number;
        };
        /** SubmissionAnswer */
        SubmissionAnswer: {
            /** Chosen */
            chosen: string[];
            /** Warnings */
            warnings: string[];
            /** Group */
            group: string | null;
            /** Jobs */
            jobs: components["schemas"]["JobView"][];
        };
        /** TaskPlace */
        TaskPlace: {
            /** Task */
            task: number;
            /** Node */
            node: string;
            /** Cards */
            cards: string[];
        };
        /**
         * TaskResult
         * @description The task that ended the gang.
         */
        TaskResult: {
            /** Task */
            task: number | null;
            /** Exit Code */
            exit_code: number | null;
            /** Signal */
            signal: number | null;
            /** Oom */
            oom: boolean;
        };
        /**
         * TenantGoals
         * @description SLOs of a tenant's jobs.
         */
        TenantGoals: {
            /** Tenant */
            tenant: string;
            /**
             * Weight
             * @description Weight in fair sharing; null: the tenant was deleted
             */
            weight: number | null;
            /**
             * Jobs
             * @description Jobs with an SLO, unfinished or ended since since_s
             */
            jobs: number;
            /** Deadlines Met */
            deadlines_met: number;
            /** Deadlines Missed */
            deadlines_missed: number;
            /**
             * Deadline Ratio
             * @description Met deadlines of those decided; null: none decided
             */
            deadline_ratio: number | null;
            /**
             * Attainment Ratio
             * @description Current mean of the services that report; null: none does
             */
            attainment_ratio: number | null;
            /**
             * Unknown
             * @description Running services whose attainment is unknown. They count as neither met nor missed
             */
            unknown: number;
        };
        /**
         * TenantNow
         * @description A GPU client of a shared card. Of other tenants' jobs only their space is shown.
         */
        TenantNow: {
            /** Job */
            job: string | null;
            /** Name */
            name: string | null;
            /** User */
            user: string | null;
            /**
             * Id
             * @description Name used by the card daemon; for administrators
             */
            id: string | null;
            /**
             * Groups
             * @description SM groups it may use; 0: all
             */
            groups: number;
            /**
             * Sm Ratio
             * @description These groups as a fraction of all; null: unknown
             */
            sm_ratio: number | null;
            /** Used Bytes */
            used_bytes: number;
            /**
             * Quota Bytes
             * @description 0: no limit
             */
            quota_bytes: number;
            /** Peak Bytes */
            peak_bytes: number | null;
            /** Weight */
            weight: number | null;
            /** Priority */
            priority: number | null;
            /** Slo */
            slo: {
                [key: string]: unknown;
            } | null;
            /**
             * Attainment Ratio
             * @description Recent SLO attainment; 1: met; null: unknown, or no SLO
             */
            attainment_ratio: number | null;
            /**
             * Credit Us
             * @description GPU time left in this squad; null: not limited
             */
            credit_us: number | null;
            /**
             * Waiting
             * @description Number of its processes that wait for credit
             */
            waiting: number | null;
            /** Waited S */
            waited_s: number | null;
            /** Is Idle */
            is_idle: boolean | null;
            /** Processes */
            processes: number | null;
            /**
             * Iterations Per S
             * @description From repeating launches; null: no iteration found
             */
            iterations_per_s: number | null;
            /**
             * Isolation
             * @description shared or isolated; empty: unknown
             */
            isolation: string;
            /** Note */
            note: string;
        };
        /** TenantPage */
        TenantPage: {
            /** Items */
            items: components["schemas"]["TenantView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** TenantRequest */
        TenantRequest: {
            /**
             * Weight
             * @default 1
             */
            weight: number;
            /** Guaranteed Gpus */
            guaranteed_gpus?: number | null;
            /** Limit Gpus */
            limit_gpus?: number | null;
            /**
             * Reclaim S
             * @default 0
             */
            reclaim_s: number;
            /** Max Pending */
            max_pending?: number | null;
            /**
             * On Hang
             * @default stop
             * @enum {string}
             */
            on_hang: "warn" | "stop";
            /**
             * Run As
             * @description UID:GID of its tasks, if the service runs as root
             */
            run_as?: string | null;
            /**
             * Max Priority
             * @description Highest priority of its users' jobs, by name or as an integer. Administrators have none
             * @default normal
             */
            max_priority: string | number;
            /**
             * May Choose Lane
             * @description Whether its users may choose the lane of a job
             * @default false
             */
            may_choose_lane: boolean;
            /**
             * Urgent Gpu Hours
             * @description GPU-hours per 30 days of its runs with priorities above high; null: no budget
             */
            urgent_gpu_hours?: number | null;
        };
        /** TenantView */
        TenantView: {
            /** Name */
            name: string;
            /** Weight */
            weight: number;
            /** Guaranteed Gpus */
            guaranteed_gpus: number | null;
            /** Limit Gpus */
            limit_gpus: number | null;
            /** Reclaim S */
            reclaim_s: number;
            /** Max Pending */
            max_pending: number | null;
            /** On Hang */
            on_hang: string;
            /** Run As */
            run_as: string | null;
            /** Max Priority */
            max_priority: string;
            /** May Choose Lane */
            may_choose_lane: boolean;
            /**
             * Urgent Gpu Hours
             * @description Budget; null: none
             */
            urgent_gpu_hours: number | null;
            /**
             * Urgent Gpu Hours Used
             * @description GPU-hours of its runs with priorities above high in the last 30 days; running ones count up to now
             */
            urgent_gpu_hours_used: number;
        };
        /**
         * TestRequest
         * @description Channel to test.
         */
        TestRequest: {
            /** Rule */
            rule?: number | null;
            /** Url */
            url?: string | null;
        };
        /** TestResult */
        TestResult: {
            /** Ok */
            ok: boolean;
            /** Error */
            error: string;
        };
        /** TimelineView */
        TimelineView: {
            /** Now S */
            now_s: number;
            /** From S */
            from_s: number;
            /** To S */
            to_s: number;
            /** Bars */
            bars: components["schemas"]["Bar"][];
            /**
             * Truncated
             * @description There are more bars than shown or read
             */
            truncated: boolean;
            /** Reservations */
            reservations: components["schemas"]["ReservationView"][];
            /** Planned */
            planned: components["schemas"]["PlannedBar"][];
            /**
             * Planned At S
             * @description When the plan was forecast; null: not yet, or the queue is too long
             */
            planned_at_s: number | null;
            /**
             * Planned Unknown
             * @description Pending jobs that start after the last replay step
             */
            planned_unknown: number;
            /** Windows */
            windows: components["schemas"]["WindowView"][];
        };
        /**
         * TimesView
         * @description Run time with this number of GPUs.
         */
        TimesView: {
            /** Gpus */
            gpus: number;
            /**
             * Low S
             * @description One run of ten has ended by then
             */
            low_s: number;
            /** Mid S */
            mid_s: number;
            /**
             * High S
             * @description Nine runs of ten have ended by then
             */
            high_s: number;
            /**
             * Efficiency Ratio
             * @description Speedup per GPU, relative to one GPU
             */
            efficiency_ratio: number;
            /** Source */
            source: string;
            /** Confidence */
            confidence: number;
        };
        /** TokenFacts */
        TokenFacts: {
            /** Id */
            id: string;
            /** Label */
            label: string;
            /** Expires S */
            expires_s: number | null;
        };
        /** TokenPage */
        TokenPage: {
            /** Items */
            items: components["schemas"]["TokenView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** TokenRequest */
        TokenRequest: {
            /**
             * Label
             * @default
             */
            label: string;
            /**
             * User
             * @description Owner of the token; null: the caller. Only administrators may name others
             */
            user?: string | null;
            /**
             * Scopes
             * @description null: all scopes of the caller
             */
            scopes?: ("read" | "submit" | "admin")[] | null;
            /**
             * Expires S
             * @description Seconds since 1970; null: as long as the caller's token
             */
            expires_s?: number | null;
        };
        /** TokenView */
        TokenView: {
            /** Id */
            id: string;
            /** User */
            user: string;
            /** Label */
            label: string;
            /** Scopes */
            scopes: string[];
            /** Created S */
            created_s: number;
            /** Expires S */
            expires_s: number | null;
            /** Revoked S */
            revoked_s: number | null;
            /** Last Used S */
            last_used_s: number | null;
        };
        /**
         * UnmanagedNow
         * @description An unmanaged process on the card: of no job, or without the shim.
         */
        UnmanagedNow: {
            /** Pid */
            pid: number;
            /** Name */
            name: string;
            /** Memory Bytes */
            memory_bytes: number;
        };
        /** UsageLine */
        UsageLine: {
            /** Key */
            key: string;
            /** Tenant */
            tenant: string;
            /** Gpu Hours */
            gpu_hours: number;
            /** Jobs */
            jobs: number;
            /** Attempts */
            attempts: number;
        };
        /** UsagePage */
        UsagePage: {
            /** Items */
            items: components["schemas"]["UsageLine"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /**
         * UseView
         * @description Utilisation of each card by a run.
         */
        UseView: {
            /** Job */
            job: string;
            /** Busy Ratios */
            busy_ratios: number[];
        };
        /**
         * UsedView
         * @description Peaks of the last attempt on cards; null: not measured.
         */
        UsedView: {
            /** Attempt */
            attempt: number;
            /**
             * Gpus
             * @description Cards of one task that were busy; in a run of less than a minute, cards whose memory it held
             */
            gpus: number | null;
            /**
             * Gpu Memory
             * @description Bytes of one card
             */
            gpu_memory: number | null;
            /**
             * Cpu
             * @description Cores of one task, mean of its busiest minute
             */
            cpu: number | null;
            /**
             * Memory
             * @description Bytes of main memory of one task
             */
            memory: number | null;
        };
        /** UserChange */
        UserChange: {
            /** Tenant */
            tenant?: string | null;
            /** Role */
            role?: ("admin" | "member" | "viewer") | null;
            /** Disabled */
            disabled?: boolean | null;
            /**
             * Max Priority
             * @description Highest priority of the user's jobs, by name or as an integer; null: that of the tenant
             */
            max_priority?: string | number | null;
            /**
             * May Choose Lane
             * @description Whether the user may choose the lane of a job; null: as the tenant
             */
            may_choose_lane?: boolean | null;
        };
        /** UserPage */
        UserPage: {
            /** Items */
            items: components["schemas"]["UserView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** UserView */
        UserView: {
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /**
             * Role
             * @enum {string}
             */
            role: "admin" | "member" | "viewer";
            /** Disabled */
            disabled: boolean;
            /** Max Priority */
            max_priority: string | null;
            /**
             * May Choose Lane
             * @description Whether the user may choose the lane of a job; null: as the tenant
             */
            may_choose_lane: boolean | null;
        };
        /**
         * WaitErrors
         * @description Accuracy of the first start forecast of jobs that waited. null: no such job.
         */
        WaitErrors: {
            /**
             * Key
             * @description A tenant; empty: all
             */
            key: string;
            /** Count */
            count: number;
            /**
             * Within 10Min
             * @description Fraction that started within ten minutes of the forecast
             */
            within_10min: number | null;
            /**
             * Within Factor 2
             * @description Fraction that waited half to twice as long as forecast
             */
            within_factor_2: number | null;
            /**
             * Within P50
             * @description Fraction that started by the P50; ideal: 0.5
             */
            within_p50: number | null;
            /**
             * Within P90
             * @description Fraction that started by the P90, where it was known; ideal: 0.9
             */
            within_p90: number | null;
            /** Median Error S */
            median_error_s: number | null;
            /** Median Wait S */
            median_wait_s: number | null;
        };
        /** WaitsView */
        WaitsView: {
            total: components["schemas"]["WaitErrors"];
            /**
             * Tenants
             * @description Largest first
             */
            tenants: components["schemas"]["WaitErrors"][];
        };
        /** WhatIfView */
        WhatIfView: {
            /** Chosen */
            chosen: string[];
            /** Warnings */
            warnings: string[];
            refused: components["schemas"]["ReasonView"] | null;
            /** Starts Now */
            starts_now: boolean;
            /** Start S */
            start_s: number | null;
            /** High S */
            high_s: number | null;
            /** Promised S */
            promised_s: number | null;
            run: components["schemas"]["RunForecast"] | null;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            /**
             * Reasons
             * @description All reasons why it would wait; empty if it would start now
             */
            reasons: components["schemas"]["ReasonView"][];
            /** Delayed */
            delayed: components["schemas"]["Delay"][];
            /** Preempted */
            preempted: string[];
            /**
             * Others
             * @description Number of other tenants' jobs that would be delayed or preempted
             */
            others: number;
            /**
             * Jobs
             * @description Number of jobs in the file; the answer is about the first
             */
            jobs: number;
        };
        /** WhenView */
        WhenView: {
            /** State */
            state: string;
            /**
             * Start S
             * @description Forecast start of a pending job; null: not known
             */
            start_s: number | null;
            /**
             * High S
             * @description Start in nine of ten cases
             */
            high_s: number | null;
            /**
             * Promised S
             * @description Latest start by its first reservation; null: it has none
             */
            promised_s: number | null;
            run: components["schemas"]["RunForecast"] | null;
            run_record: components["schemas"]["RunTimeRecord"] | null;
            end: components["schemas"]["End"] | null;
            /** Position */
            position: number | null;
            accuracy: components["schemas"]["AccuracyView"] | null;
        };
        /** WhyView */
        WhyView: {
            /** State */
            state: string;
            /** Position */
            position: number | null;
            /** Reasons */
            reasons: components["schemas"]["ReasonView"][];
            /**
             * Passed
             * @description At most 20, running ones first
             */
            passed: components["schemas"]["PassedView"][];
            /**
             * Hang Warnings
             * @description Of a running job
             */
            hang_warnings: components["schemas"]["HangWarning"][];
        };
        /** WindowPage */
        WindowPage: {
            /** Items */
            items: components["schemas"]["WindowView"][];
            /**
             * Next
             * @description Cursor of the next page; null on the last one
             */
            next: string | null;
        };
        /** WindowRequest */
        WindowRequest: {
            /** Nodes */
            nodes: string[];
            /** Start S */
            start_s: number;
            /** End S */
            end_s?: number | null;
            /**
             * Cause
             * @default
             */
            cause: string;
        };
        /** WindowView */
        WindowView: {
            /** Id */
            id: string;
            /** Nodes */
            nodes: string[];
            /** Start S */
            start_s: number;
            /** End S */
            end_s: number | null;
            /** By */
            by: string;
            /** Cause */
            cause: string;
        };
        /** WorkloadView */
        WorkloadView: {
            /** Name */
            name: string;
            /** @description null: never measured alone */
            solo: components["schemas"]["SoloView"] | null;
        };
        /** ErrorView */
        ErrorView: {
            /** Code */
            code: string;
            /** Message */
            message: string;
            /** Field */
            field: string;
            /** Cure */
            cure: string;
            /** @default null */
            reason: components["schemas"]["ReasonView"] | null;
            /**
             * Id
             * @description Id of an unexpected error, to look for in the log
             * @default null
             */
            id: string | null;
        };
        /** ErrorBody */
        ErrorBody: {
            error: components["schemas"]["ErrorView"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    list_jobs: {
        parameters: {
            query?: {
                /** @description One or more, repeated or separated by commas */
                state?: string[];
                tenant?: string | null;
                user?: string | null;
                name?: string | null;
                group?: string | null;
                text?: string | null;
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Seconds since 1970 */
                until_s?: number | null;
                sort?: "-submitted" | "submitted" | "-ended";
                /** @description Rows on this page */
                limit?: number;
                /** @description `next` of the previous page */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobPage"];
                };
            };
        };
    };
    submit_jobs: {
        parameters: {
            query?: never;
            header?: {
                /** @description Requests with the same key of the same user count as one submission */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FileRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmissionAnswer"];
                };
            };
        };
    };
    get_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobDetail"];
                };
            };
        };
    };
    change_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangedJob"];
                };
            };
        };
    };
    get_job_source: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobSource"];
                };
            };
        };
    };
    cancel_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CauseRequest"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobView"];
                };
            };
        };
    };
    hold_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobView"];
                };
            };
        };
    };
    release_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobView"];
                };
            };
        };
    };
    resubmit_job: {
        parameters: {
            query?: never;
            header?: {
                /** @description Requests with the same key of the same user count as one submission */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmissionAnswer"];
                };
            };
        };
    };
    why_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WhyView"];
                };
            };
        };
    };
    when_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WhenView"];
                };
            };
        };
    };
    what_if: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FileRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WhatIfView"];
                };
            };
        };
    };
    job_story: {
        parameters: {
            query?: {
                /** @description Rows on this page */
                limit?: number;
                cursor?: number;
            };
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Story"];
                };
            };
        };
    };
    job_of_pod: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                namespace: string;
                pod: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobView"];
                };
            };
        };
    };
    recommend: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FileRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecommendView"];
                };
            };
        };
    };
    read_logs: {
        parameters: {
            query?: {
                task?: number;
                attempt?: number | null;
                offset?: number | null;
                /** @description Start with this many last lines */
                tail?: number | null;
                /** @description Bytes */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogPart"];
                };
            };
        };
    };
    stream_logs: {
        parameters: {
            query?: {
                task?: string;
                /** @description Start with this many last lines */
                tail?: number | null;
            };
            header?: {
                /** @description Continue after this event */
                "last-event-id"?: string | null;
            };
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events log and end */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    get_queue: {
        parameters: {
            query?: {
                tenant?: string | null;
                /** @description Rows on this page */
                limit?: number;
                /** @description `next` of the previous page */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueuePage"];
                };
            };
        };
    };
    get_cluster: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterView"];
                };
            };
        };
    };
    list_nodes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodePage"];
                };
            };
        };
    };
    drain_node: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CauseRequest"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    undrain_node: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    cordon_card: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description For example node0/3 */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CauseRequest"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    uncordon_card: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description For example node0/3 */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    list_samples: {
        parameters: {
            query?: {
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Seconds since 1970 */
                until_s?: number | null;
                /** @description Mean over such spans */
                every_s?: number;
            };
            header?: never;
            path: {
                /** @description For example node0/3 */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SamplePage"];
                };
            };
        };
    };
    list_windows: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowPage"];
                };
            };
        };
    };
    add_window: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WindowRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowView"];
                };
            };
        };
    };
    remove_window: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                window: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_cards: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CardDivisionPage"];
                };
            };
        };
    };
    set_card_divide: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id or UUID, a prefix of one, or the index: node0/3, or 3 if there is one node */
                card: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DivideRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CardDivision"];
                };
            };
        };
    };
    list_card_divides: {
        parameters: {
            query?: {
                /** @description Rows on this page */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id or UUID, a prefix of one, or the index: node0/3, or 3 if there is one node */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DivideRevisionPage"];
                };
            };
        };
    };
    get_card: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id or UUID, a prefix of one, or the index: node0/3, or 3 if there is one node */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CardDetail"];
                };
            };
        };
    };
    get_policy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyView"];
                };
            };
        };
    };
    set_policy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PolicyRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyView"];
                };
            };
        };
    };
    list_revisions: {
        parameters: {
            query?: {
                /** @description Rows on this page */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionPage"];
                };
            };
        };
    };
    preview_policy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PolicyRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreviewView"];
                };
            };
        };
    };
    get_usage: {
        parameters: {
            query?: {
                by?: "tenant" | "user" | "job";
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Seconds since 1970 */
                until_s?: number | null;
                /** @description Rows on this page */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsagePage"];
                };
            };
        };
    };
    get_predictions: {
        parameters: {
            query?: {
                tenant?: string | null;
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Predictions to draw, with actual run times */
                points?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PredictionsView"];
                };
            };
        };
    };
    stream_events: {
        parameters: {
            query?: {
                /** @description Last known event; none: only new events */
                after?: number | null;
            };
            header?: {
                /** @description The same, after a reconnect */
                "last-event-id"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events of the kind job */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    get_me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
        };
    };
    list_tenants: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantPage"];
                };
            };
        };
    };
    add_tenant: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewTenant"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantView"];
                };
            };
        };
    };
    put_tenant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TenantRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantView"];
                };
            };
        };
    };
    list_users: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserPage"];
                };
            };
        };
    };
    add_user: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewUser"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserView"];
                };
            };
        };
    };
    change_user: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserChange"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserView"];
                };
            };
        };
    };
    list_tokens: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenPage"];
                };
            };
        };
    };
    add_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TokenRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewToken"];
                };
            };
        };
    };
    revoke_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                token: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_audit: {
        parameters: {
            query?: {
                actor?: string | null;
                action?: string | null;
                target?: string | null;
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Seconds since 1970 */
                until_s?: number | null;
                /** @description Rows on this page */
                limit?: number;
                /** @description `next` of the previous page */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditPage"];
                };
            };
        };
    };
    list_secrets: {
        parameters: {
            query?: {
                tenant?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SecretPage"];
                };
            };
        };
    };
    put_secret: {
        parameters: {
            query?: {
                tenant?: string | null;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SecretRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SecretView"];
                };
            };
        };
    };
    remove_secret: {
        parameters: {
            query?: {
                tenant?: string | null;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_rules: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RulePage"];
                };
            };
        };
    };
    add_rule: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RuleRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleView"];
                };
            };
        };
    };
    remove_rule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                rule: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_outbox: {
        parameters: {
            query?: {
                state?: ("waiting" | "sent" | "dead") | null;
                /** @description Rows on this page */
                limit?: number;
                /** @description `next` of the previous page */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NoticePage"];
                };
            };
        };
    };
    test_notice: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TestRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TestResult"];
                };
            };
        };
    };
    retry_notice: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                notice: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    list_inbox: {
        parameters: {
            query?: {
                /** @description Only unread entries */
                unread?: boolean;
                /** @description Only entries with a larger id */
                after?: number | null;
                /** @description Only entries about this job (id) or its batch */
                job?: string | null;
                /** @description Rows on this page */
                limit?: number;
                /** @description `next` of the previous page */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InboxPage"];
                };
            };
        };
    };
    mark_read: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReadRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReadResult"];
                };
            };
        };
    };
    get_job_schema: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    get_timeline: {
        parameters: {
            query?: {
                /** @description Seconds since 1970 */
                from_s?: number | null;
                /** @description Seconds since 1970 */
                to_s?: number | null;
                node?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TimelineView"];
                };
            };
        };
    };
    get_efficiency: {
        parameters: {
            query?: {
                /** @description Hours before now */
                hours?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EfficiencyView"];
                };
            };
        };
    };
    get_free: {
        parameters: {
            query?: {
                gpus?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FreeView"];
                };
            };
        };
    };
    get_interference: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InterferenceView"];
                };
            };
        };
    };
    job_neighbours: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, a prefix or suffix of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NeighboursView"];
                };
            };
        };
    };
    get_goals: {
        parameters: {
            query?: {
                /** @description Hours before now */
                hours?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GoalsView"];
                };
            };
        };
    };
    get_prediction_series: {
        parameters: {
            query?: {
                tenant?: string | null;
                source?: string | null;
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Number of points in time */
                spans?: number;
                /** @description Predictions to draw, with actual run times */
                points?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PredictionSeriesView"];
                };
            };
        };
    };
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthView"];
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthView"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description For Prometheus */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
}
