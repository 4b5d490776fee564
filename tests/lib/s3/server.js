// A server of S3 that is not ours, and checks each signature (@20minutes/s3rver, which tools/deps
// s3 fetches). Beside that it wants one for everything but the bucket "open", and tells what it was
// asked.
//
//	node --openssl-legacy-provider server.js MODULES DIRECTORY ADDRESS [AHEAD]
//
// AHEAD: seconds by which its clock is. An object is the file DIRECTORY/BUCKET/KEY._S3rver_object.
// Keys are ACCESS and SECRET below. Prints its port, then a line of JSON for each request.
'use strict';

const http = require('http');

const ACCESS = 'AKIATEST';
const SECRET = 'secret/+key';
const [modules, directory, address, ahead] = process.argv.slice(2);
const package_ = `${modules}/node_modules/@20minutes/s3rver`;

if (ahead) {
	const RealDate = Date;

	global.Date = class extends RealDate {
		constructor(...words) {
			super(...(words.length ? words : [RealDate.now() + 1000 * ahead]));
		}
	};
}

const S3rver = require(package_);
const { DUMMY_ACCOUNT } = require(`${package_}/lib/models/account`);

function refuse(response) {
	response.writeHead(403, { 'Content-Type': 'application/xml' });
	response.end('<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code>' +
		'<Message>Access Denied</Message></Error>');
}

DUMMY_ACCOUNT.createKeyPair(ACCESS, SECRET);
const answer = new S3rver({ directory, silent: true, vhostBuckets: false }).callback();

const server = http.createServer((request, response) => {
	const signed = 'authorization' in request.headers;

	response.on('finish', () => console.log(JSON.stringify({
		from: request.socket.remoteAddress, url: request.url, signed,
		range: request.headers.range, status: response.statusCode,
	})));
	if (request.method !== 'GET' || (!signed && !/^\/open[/?]/.test(request.url)))
		refuse(response);
	else
		answer(request, response);
});

server.listen(0, address, () => console.log(server.address().port));
