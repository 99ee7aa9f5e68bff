// The verified delivery in njs, see edge.conf.in

import crypto from 'crypto';
import fs from 'fs';

let secret;

function verified(r) {
    if (secret === undefined) {
        secret = fs.readFileSync(r.variables.hmac_secret_file).toString()
            .split('\n')[0];
    }

    const want = 'sha256=' + crypto.createHmac('sha256', secret)
        .update(r.requestBuffer || '').digest('hex');
    const got = r.headersIn['X-Signature'] || '';
    let differ = want.length ^ got.length;

    for (let i = 0; i < want.length; i++) {
        differ |= want.charCodeAt(i) ^ got.charCodeAt(i);
    }

    if (differ !== 0) {
        r.return(401);
        return;
    }

    r.headersOut['Content-Type'] = 'application/json';
    r.return(202, '{"decision":"duplicate","status":"queued"}');
}

export default { verified };
